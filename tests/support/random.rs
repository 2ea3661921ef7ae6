//! Randomness with a seed: the same seed gives the same test.

/// A stream of numbers that looks random and is the same for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of the seed in `LCM_TEST_SEED`, else of `usual`; tells which, so that a failure can be repeated.
    pub fn of_test(usual: u64) -> Self {
        let seed = std::env::var("LCM_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(usual);
        tell(seed);
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        // A counter in steps of the golden ratio, its bits mixed until each depends on all.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9_u64), (27, 0x94d0_49bb_1331_11eb)] {
            mixed = (mixed ^ (mixed >> shift)).wrapping_mul(factor);
        }
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a usize fits 64 bits");
        usize::try_from(self.number() % bound).expect("below a usize")
    }

    /// One of `all`, which are not none.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Whether something happens that does so `times` in a hundred.
    pub fn percent(&mut self, times: usize) -> bool {
        self.below(100) < times
    }
}

#[expect(clippy::print_stdout, reason = "a test's output is shown when it fails")]
fn tell(seed: u64) {
    println!("LCM_TEST_SEED={seed}");
}
