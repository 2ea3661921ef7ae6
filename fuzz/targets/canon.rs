//! The fuzzer on `lcm_fuzz::canon`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lcm_fuzz::canon(bytes));
