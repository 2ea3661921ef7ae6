//! Faults that the simulator has found and that are not mended yet. What leads to one is left out while its constant is
//! `false`; whoever mends it sets it to `true`, or takes it out.
