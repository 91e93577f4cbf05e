//! A container that asks for little, for tests to add to.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bundle::{Cgroup, Console, IdLines, Process, Rootfs, Seccomp, Space, Spaces, Start, User};
use ids::IdMapping;

/// The first host ID of the maps that are used here.
pub const BASE: u64 = 1_048_576;

pub fn maps() -> IdLines {
    let line = IdMapping::new(0, BASE, 65_536).unwrap();
    IdLines { uids: vec![line], gids: vec![line] }
}

pub fn spaces(user: Space) -> Spaces {
    let new = Space::New;
    Spaces { user, network: new.clone(), ipc: new.clone(), uts: new.clone(), pid: new.clone(), cgroup: new }
}

pub fn process(args: &[&str]) -> Process {
    Process {
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: vec!["PATH=/bin".into()],
        cwd: "/".into(),
        user: User::default(),
        capabilities: bundle::capabilities::of(&bundle::capabilities::Asked::default()).unwrap(),
        no_new_privileges: false,
        rlimits: Vec::new(),
        oom_score_adj: None,
        apparmor_profile: None,
        selinux_label: None,
        seccomp: Seccomp::Unconfined,
        console: Console::Pipes,
    }
}

/// A container over one layer below `dir`.
pub fn start(dir: &Path) -> Start {
    let made = |name: &str| -> PathBuf {
        let path = dir.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    Start {
        id: "c1".into(),
        rootfs: Rootfs {
            lowers: vec![made("layer")],
            upper: made("rw/upper"),
            work: made("rw/work"),
            read_only: false,
        },
        mounts: Vec::new(),
        spaces: spaces(Space::New),
        ids: Some(maps()),
        process: process(&["/bin/true"]),
        hostname: None,
        sysctls: BTreeMap::new(),
        masked_paths: Vec::new(),
        read_only_paths: Vec::new(),
        devices: Vec::new(),
        device_rules: Vec::new(),
        cgroup: Cgroup::default(),
        annotations: BTreeMap::new(),
    }
}
