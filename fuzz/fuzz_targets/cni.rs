#![no_main]
//! A CNI configuration, or what a plugin printed: any bytes are understood or refused, what a plugin is given names it and
//! its network, and its complaint is one line.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (inputs, complaint) = network::fuzzing::cni(bytes);
    for input in &inputs {
        let word = |key: &str| input[key].as_str().unwrap_or_default();
        assert!(!word("name").is_empty() && !word("cniVersion").is_empty());
        assert!(!word("type").is_empty() && !word("type").contains('/') && !word("type").starts_with('.'));
    }
    assert!(!complaint.contains('\n'), "{complaint:?}");
});
