//! Any sequence of writes, reopenings and compactions leaves what the model says, and a store that checks as whole.

use proptest::prelude::*;

use crate::world::{World, steps};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_store_does_what_the_model_does(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            world.compare();
        }
    }
}
