//! Measuring: wall and CPU time of single calls, and how they are reported.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Wall and CPU time of one call.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// By the clock on the wall.
    pub wall: Duration,
    /// By all threads of the process.
    pub cpu: Duration,
}

/// Runs `call` and measures it.
pub fn timed<T>(call: impl FnOnce() -> T) -> (Sample, T) {
    let (begun, cpu) = (Instant::now(), cpu_time());
    let value = call();
    (Sample { wall: begun.elapsed(), cpu: cpu_time().saturating_sub(cpu) }, value)
}

/// Measured calls of one kind.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<Sample>);

impl Samples {
    /// Adds one.
    pub fn push(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    /// A part of them, in the order they were made.
    #[must_use]
    pub fn part(&self, range: std::ops::Range<usize>) -> Self {
        Self(self.0[range].to_vec())
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Minimum, median, 99th percentile, mean, and median of CPU time; milliseconds. Null without samples.
    #[must_use]
    pub fn report(&self) -> Value {
        if self.0.is_empty() {
            return Value::Null;
        }
        let sorted = |pick: fn(&Sample) -> Duration| {
            let mut times: Vec<Duration> = self.0.iter().map(pick).collect();
            times.sort_unstable();
            times
        };
        let (wall, cpu) = (sorted(|sample| sample.wall), sorted(|sample| sample.cpu));
        let at = |times: &[Duration], percent: usize| {
            milliseconds(times[(times.len() * percent / 100).min(times.len() - 1)])
        };
        let total: Duration = wall.iter().sum();
        json!({
            "n": wall.len(),
            "min_ms": milliseconds(wall[0]),
            "p50_ms": at(&wall, 50),
            "p99_ms": at(&wall, 99),
            "mean_ms": milliseconds(total / u32::try_from(wall.len()).unwrap_or(u32::MAX)),
            "cpu_p50_ms": at(&cpu, 50),
        })
    }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// CPU time of this process so far.
#[must_use]
pub fn cpu_time() -> Duration {
    let usage = usage();
    let of = |time: libc::timeval| {
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_usec).unwrap_or(0) * 1000)
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// The most memory this process ever had resident, in KiB.
#[must_use]
pub fn peak_resident_kb() -> i64 {
    usage().ru_maxrss
}

#[allow(unsafe_code, reason = "the standard library does not tell a process's usage")]
fn usage() -> libc::rusage {
    // SAFETY: `rusage` is plain integers, for which zero is a value, and the call only writes into it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    }
}
