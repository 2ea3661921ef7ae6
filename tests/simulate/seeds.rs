//! Seed after seed, as long as there is time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use crate::world::World;

/// Inside `cargo test --workspace`: a taste.
const USUAL_SECONDS: u64 = 4;
const USUAL_FROM: u64 = 1;
/// Steps that are shown when one fails.
const SHOWN_MAX: usize = 400;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// A simulation from its seed, of any length: what fails in a short one is read first.
fn simulate(seed: u64) {
    let mut world = World::new(seed);
    let steps = 10 + world.random.below(90);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        for step in 1..=steps {
            world.step();
            world.check();
            if step % 25 == 0 || step == steps {
                world.check_store();
            }
        }
    }));
    if let Err(panic) = outcome {
        let from = world.told.len().saturating_sub(SHOWN_MAX);
        eprintln!("{}", world.told[from..].join("\n"));
        eprintln!("step {} of LCM_SIMULATE_SEED={seed} failed", world.steps);
        resume_unwind(panic);
    }
}

#[test]
fn whatever_hosts_do_nothing_is_lost_and_nothing_is_doubled() {
    if let Some(seed) = setting("LCM_SIMULATE_SEED") {
        simulate(seed);
        return;
    }
    let until = Instant::now() + Duration::from_secs(setting("LCM_SIMULATE_SECONDS").unwrap_or(USUAL_SECONDS));
    let mut seed = setting("LCM_SIMULATE_FROM").unwrap_or(USUAL_FROM);
    let mut done = 0;
    while done == 0 || Instant::now() < until {
        simulate(seed);
        seed += 1;
        done += 1;
    }
    eprintln!("{done} simulations, up to LCM_SIMULATE_SEED={}", seed - 1);
}
