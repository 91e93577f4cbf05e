#![no_main]
//! Labels, whole and in parts: what is read is read again from its print, nothing in it can leave a
//! quoted mount option, and comparison does not depend on the side.

use selinux::{Comparison, Label, Level, PartialLabel};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(level) = text.parse::<Level>() {
        assert_eq!(level.to_string().parse(), Ok(level.clone()));
        assert!(level.high().categories().iter().all(|c| c < 1024));
        let low: Vec<u16> = level.low().categories().iter().collect();
        assert!(low.iter().all(|c| level.high().categories().iter().any(|h| h == *c)));
    }
    match text.parse::<Label>() {
        Ok(label) => {
            let printed = label.to_string();
            assert_eq!(printed.parse(), Ok(label));
            assert!(printed.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\'));
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
    let (a, b) = text.split_once('\n').unwrap_or((text, text));
    let read = |t: &str| t.parse::<PartialLabel>().unwrap_or_else(|never| match never {});
    let (a, b) = (read(a), read(b));
    assert_eq!(a.compare(&b), b.compare(&a));
    assert_eq!(a.compare(&a), Comparison::Same);
    assert_eq!(read(&a.to_string()), a);
});
