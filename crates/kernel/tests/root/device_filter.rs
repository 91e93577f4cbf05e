//! Which devices a control group of version 2 may use. Needs root and a mount of cgroup2, also beside version 1.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel::{AccessKinds, DeviceAccess, DeviceKind, MountTable, filter_devices};

struct Group(PathBuf);

impl Group {
    fn new() -> Self {
        let table = MountTable::read().unwrap();
        let mount = table.iter().find(|mount| mount.filesystem == "cgroup2");
        let mount = mount.unwrap_or_else(|| panic!("this host has no cgroup2 mount"));
        let dir = mount.point.join(format!("wardlet-device-filter-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    /// Whether a process of this group can open it.
    fn opens(&self, device: &str) -> bool {
        let line = "echo $$ > \"$0/cgroup.procs\" && exec 2>/dev/null && : < \"$1\"";
        Command::new("sh").args(["-c", line]).arg(&self.0).arg(device).status().unwrap().success()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        fs::remove_dir(&self.0).unwrap();
    }
}

fn rule(allow: bool, minor: Option<u32>, letters: &str) -> DeviceAccess {
    let kind = minor.map(|_| DeviceKind::Char);
    let access = AccessKinds::of(letters);
    DeviceAccess { allow, kind, major: minor.map(|_| 1), minor, access }
}

#[test]
fn a_group_uses_the_devices_of_its_rules_and_no_others() {
    let group = Group::new();
    assert!(group.opens("/dev/null") && group.opens("/dev/zero") && group.opens("/dev/full"));
    let dir = File::open(&group.0).unwrap();
    let rules = [rule(false, None, "rwm"), rule(true, Some(3), "rwm"), rule(true, Some(5), "w")];
    filter_devices(dir.as_fd(), &rules).unwrap();
    assert!(group.opens("/dev/null"));
    assert!(!group.opens("/dev/zero"), "writing is all that is allowed");
    assert!(!group.opens("/dev/full"), "no rule is about it");
    assert!(Path::new("/dev/full").exists());
    drop(dir);
}
