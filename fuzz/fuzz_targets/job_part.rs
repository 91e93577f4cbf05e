#![no_main]
//! The part of a job that a monitor reads: no path leads out of where it is joined to, whatever was written.

use std::path::Component;

use libfuzzer_sys::fuzz_target;
use monitor::job::JobPart;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(part) = JobPart::parse(bytes) {
        assert!(part.run_dir.is_absolute());
        assert!(part.cgroup.components().all(|name| matches!(name, Component::Normal(_))), "{part:?}");
        if let Some(maps) = &part.ids {
            let _ = maps.on_host(part.uid, part.gid);
        }
    }
});
