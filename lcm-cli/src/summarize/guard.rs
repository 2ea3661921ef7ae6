//! Whether a model is asked now, and how long to wait before it is asked again. Pure: the time is an argument, counted
//! from any fixed moment, and so is chance.

use std::collections::VecDeque;
use std::time::Duration;

use super::failure::Failure;

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What may be spent in a window of time, and for how long nothing is spent after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cap {
    /// Requests in a window; with 0 none is made.
    pub(crate) calls: u64,
    /// Tokens in a window, asked and answered; 0 for no bound.
    pub(crate) tokens: u64,
    pub(crate) window: Duration,
    pub(crate) backoff: Duration,
}

/// Counts what is spent, and says when it is enough.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    cap: Cap,
    /// When, how often, and what it cost; rising, and no more entries than calls in a window.
    spent: VecDeque<(Duration, u64, u64)>,
    closed_until: Option<Duration>,
}

impl Guard {
    /// A guard that knows what others spent in the window before `now`.
    pub(super) fn new(cap: Cap, now: Duration, calls: u64, tokens: u64) -> Self {
        let already = (calls > 0 || tokens > 0).then_some((now, calls, tokens));
        Self { cap, spent: already.into_iter().collect(), closed_until: None }
    }

    /// Admits a call that costs so many tokens to ask, and counts it.
    pub(super) fn admit(&mut self, now: Duration, tokens: u64) -> Result<(), Failure> {
        if let Some(until) = self.closed_until {
            if now < until {
                return Err(self.refusal(until - now));
            }
            self.closed_until = None;
        }
        while self.spent.front().is_some_and(|(at, ..)| *at + self.cap.window <= now) {
            self.spent.pop_front();
        }
        let calls = self.spent.iter().fold(0_u64, |sum, (_, calls, _)| sum.saturating_add(*calls));
        let cost = self.spent.iter().fold(tokens, |sum, (_, _, tokens)| sum.saturating_add(*tokens));
        if calls >= self.cap.calls || (self.cap.tokens > 0 && cost > self.cap.tokens) {
            self.closed_until = Some(now + self.cap.backoff);
            return Err(self.refusal(self.cap.backoff));
        }
        self.spent.push_back((now, 1, tokens));
        Ok(())
    }

    /// Counts what an answer cost.
    pub(super) fn add(&mut self, tokens: u64) {
        if let Some((.., last)) = self.spent.back_mut() {
            *last = last.saturating_add(tokens);
        }
    }

    fn refusal(&self, left: Duration) -> Failure {
        let Cap { calls, tokens, window, .. } = self.cap;
        let what = match tokens {
            0 => format!("the {calls} calls"),
            tokens => format!("the {calls} calls or {tokens} tokens"),
        };
        Failure::Spent { what, window, left }
    }
}

/// Leaves a model alone that fails again and again, then tries it once.
#[derive(Clone, Debug)]
pub(super) struct Breaker {
    failures_max: u32,
    cooldown: Duration,
    failures: u32,
    open_until: Option<Duration>,
}

impl Breaker {
    pub(super) fn new(failures_max: u32, cooldown: Duration) -> Self {
        Self { failures_max, cooldown, failures: 0, open_until: None }
    }

    /// Admits a request. After the cooldown that is one trial: others wait until it has succeeded, or for another
    /// cooldown, should nobody ever tell how it went.
    pub(super) fn admit(&mut self, now: Duration) -> Result<(), Failure> {
        match self.open_until {
            Some(until) if now < until => Err(Failure::LeftAlone(until - now)),
            Some(_) => {
                self.open_until = Some(now + self.cooldown);
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn succeeded(&mut self) {
        (self.failures, self.open_until) = (0, None);
    }

    pub(super) fn failed(&mut self, now: Duration) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= self.failures_max {
            self.open_until = Some(now + self.cooldown);
        }
    }
}

/// How long to wait before try number `next` (the first repetition is 1): twice as long each time, and at random
/// between half of that and all of it, so that many who failed together do not come back together.
pub(super) fn pause(next: u32, first: Duration, random: u64) -> Duration {
    let longest = first.saturating_mul(2_u32.saturating_pow(next.saturating_sub(1))).min(PAUSE_MAX);
    let half = longest / 2;
    let steps = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
    longest - half + Duration::from_nanos(random % steps)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const CAP: Cap = Cap { calls: 3, tokens: 1000, window: s(600), backoff: s(1800) };

    #[test]
    fn when_the_calls_are_spent_nothing_is_asked_until_the_backoff_is_over() {
        let mut guard = Guard::new(CAP, s(0), 0, 0);
        for at in 0..3 {
            guard.admit(s(at), 1).unwrap();
        }
        let refusal = guard.admit(s(10), 1).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "the 3 calls or 1000 tokens of 600 seconds are spent; it is asked again in 1800 seconds"
        );
        // The window is over long before.
        assert!(guard.admit(s(1809), 1).is_err());
        guard.admit(s(1810), 1).unwrap();
    }

    #[test]
    fn what_is_older_than_the_window_does_not_count() {
        let mut guard = Guard::new(CAP, s(0), 0, 0);
        for at in 0..20 {
            guard.admit(s(at * 250), 10).unwrap();
        }
        assert!(guard.spent.len() <= 3);
    }

    #[test]
    fn tokens_count_asked_and_answered() {
        let mut guard = Guard::new(CAP, s(0), 0, 0);
        guard.admit(s(0), 500).unwrap();
        guard.add(100);
        guard.admit(s(1), 400).unwrap();
        assert!(guard.admit(s(2), 1).is_err());
        let mut free = Guard::new(Cap { tokens: 0, ..CAP }, s(0), 0, 0);
        free.admit(s(0), u64::MAX).unwrap();
        free.admit(s(0), u64::MAX).unwrap();
    }

    #[test]
    fn what_others_spent_counts_and_with_a_cap_of_nothing_nobody_asks() {
        let mut guard = Guard::new(CAP, s(5), 2, 0);
        guard.admit(s(5), 1).unwrap();
        assert!(guard.admit(s(6), 1).is_err());
        assert!(Guard::new(Cap { calls: 0, ..CAP }, s(0), 0, 0).admit(s(0), 1).is_err());
    }

    #[test]
    fn two_failures_open_the_breaker_and_one_trial_closes_it() {
        let mut breaker = Breaker::new(2, s(300));
        breaker.failed(s(0));
        breaker.admit(s(1)).unwrap();
        breaker.failed(s(1));
        assert_eq!(breaker.admit(s(2)), Err(Failure::LeftAlone(s(299))));
        breaker.admit(s(301)).unwrap();
        // One trial at a time.
        assert!(breaker.admit(s(302)).is_err());
        breaker.succeeded();
        breaker.admit(s(303)).unwrap();
        breaker.failed(s(304));
        breaker.admit(s(305)).unwrap();
    }

    #[test]
    fn a_trial_that_fails_opens_it_again() {
        let mut breaker = Breaker::new(2, s(300));
        breaker.failed(s(0));
        breaker.failed(s(0));
        breaker.admit(s(300)).unwrap();
        breaker.failed(s(310));
        assert_eq!(breaker.admit(s(311)), Err(Failure::LeftAlone(s(299))));
    }

    proptest! {
        #[test]
        fn pauses_grow_and_stay_within_bounds(next in 1_u32.., first_ms in 0_u64..100_000, random in any::<u64>()) {
            let first = Duration::from_millis(first_ms);
            let longest = first.saturating_mul(2_u32.saturating_pow(next - 1)).min(PAUSE_MAX);
            let pause = pause(next, first, random);
            prop_assert!(pause <= longest && pause >= longest / 2, "{pause:?} of {longest:?}");
        }

        #[test]
        fn no_window_holds_more_calls_than_may_be_made(steps in prop::collection::vec((0_u64..400, 0_u64..600), 0..60)) {
            let mut guard = Guard::new(CAP, s(0), 0, 0);
            let (mut now, mut admitted) = (0, Vec::new());
            for (wait, tokens) in steps {
                now += wait;
                if guard.admit(s(now), tokens).is_ok() {
                    admitted.push((now, tokens));
                }
            }
            for (at, _) in &admitted {
                let within: Vec<u64> =
                    admitted.iter().filter(|(other, _)| (*at..*at + 600).contains(other)).map(|(_, t)| *t).collect();
                prop_assert!(within.len() <= 3 && within.iter().sum::<u64>() <= 1000);
            }
        }
    }
}
