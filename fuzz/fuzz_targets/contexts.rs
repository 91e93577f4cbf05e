#![no_main]
//! A host's contexts file: its labels fill in what a pod leaves out, and categories are never made
//! up. The first line is the pod's level, the rest the file.

use selinux::{ContextsError, HostDefaults, SelinuxOptions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (level, file) = text.split_once('\n').unwrap_or(("", text));
    let defaults = match file.parse::<HostDefaults>() {
        Ok(defaults) => defaults,
        Err(ContextsError::Label { line, key, .. }) => {
            assert!(file.lines().nth(line - 1).is_some_and(|l| l.contains(&key)));
            return;
        }
        Err(ContextsError::Missing(_)) => return,
    };
    let printed = format!(
        "process = \"{}\"\nfile = \"{}\"\nro_file = \"{}\"\n",
        defaults.process, defaults.file, defaults.read_only_file
    );
    assert_eq!(printed.parse(), Ok(defaults.clone()));

    let options = SelinuxOptions { level: Some(level.to_owned()), ..SelinuxOptions::default() };
    match defaults.volume_label(&options) {
        Ok(None) => assert!(level.is_empty()),
        Ok(Some(label)) => {
            assert_eq!(
                label.level().map(ToString::to_string),
                level.parse::<selinux::Level>().ok().map(|l| l.to_string())
            );
            assert_eq!((label.user(), label.kind()), (defaults.file.user(), defaults.file.kind()));
        }
        Err(_) => assert!(level.parse::<selinux::Level>().is_err()),
    }
    let none = SelinuxOptions::default();
    assert_eq!(defaults.process_label(&none, None), Ok(defaults.process.clone()));
});
