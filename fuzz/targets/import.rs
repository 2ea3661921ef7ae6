//! The fuzzer on `lcm_fuzz::import`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lcm_fuzz::import(bytes));
