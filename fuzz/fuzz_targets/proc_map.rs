#![no_main]
//! `/proc/PID/uid_map`: both sides stay below 2^32-1, and a map printed is read back.

use ids::IdMapping;
use ids::parse::proc_map::{ProcMapError, parse_proc_map, to_proc_map};
use libfuzzer_sys::fuzz_target;

fn exists(m: &IdMapping) -> bool {
    m.host().end() <= 4_294_967_295 && u64::from(m.container()) + m.length() <= 4_294_967_295
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match parse_proc_map(text) {
        Ok(map) => {
            assert_eq!(map.len(), text.lines().count());
            assert!(map.iter().all(exists));
            assert_eq!(parse_proc_map(&to_proc_map(&map)), Ok(map));
        }
        Err(ProcMapError::NotVisible { line }) => {
            let said = text.lines().nth(line - 1).and_then(|l| l.split_ascii_whitespace().nth(1));
            assert_eq!(said, Some("4294967295"));
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});
