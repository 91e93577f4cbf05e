#![no_main]
//! A WebSocket frame's head, and the sizes of a terminal that come in such frames: read or refused.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    streaming::fuzzing::websocket(bytes);
    streaming::fuzzing::sizes(bytes);
});
