#![no_main]
//! An image's configuration: any bytes are understood or refused, always in the same way.

use images::Configuration;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let once = Configuration::parse("fuzz", bytes);
    if let Ok(config) = &once {
        assert_eq!(Configuration::parse("fuzz", bytes).as_ref().ok(), Some(config));
        assert!(config.config.stop_signal.as_deref() != Some(""));
        assert!(config.diff_ids.iter().all(|digest| digest.hex().len() == 64));
    }
});
