//! The fuzzer on `lcm_fuzz::wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lcm_fuzz::wire(bytes));
