#![no_main]
//! What a registry wants to see before it gives something: any text is understood or left alone.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| images::fuzzing::challenge(&String::from_utf8_lossy(bytes)));
