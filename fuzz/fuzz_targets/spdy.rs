#![no_main]
//! A SPDY connection's frames with their compressed headers: any bytes are read or refused.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| streaming::fuzzing::spdy(bytes));
