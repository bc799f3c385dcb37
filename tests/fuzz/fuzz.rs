//! The program of the fuzzer: libFuzzer's `main`, and what it calls. Run by `shell/fuzz.sh`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| xdrive::fuzzing::run(input));
