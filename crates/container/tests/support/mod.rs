//! A container that asks for little, for tests to add to.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use container::prepare::{PreparedRootfs, Stage, from_host, prepare_rootfs};
use container::{
    Cgroup, Console, ContainerSpec, Error, NamespaceSpec, NamespaceSpecs, Owners, Process, Rootfs, Seccomp,
    WantedUser,
};
use ids::{IdMapping, IdMappings};
use kernel::{Live, in_private_mount_namespace};

/// The first host ID of the maps that are used here.
pub const BASE: u64 = 1_048_576;

pub fn maps() -> IdMappings {
    let line = IdMapping::new(0, BASE, 65_536).unwrap();
    IdMappings { uids: vec![line], gids: vec![line] }
}

pub fn spaces(user: NamespaceSpec) -> NamespaceSpecs {
    let new = NamespaceSpec::New;
    NamespaceSpecs {
        user,
        network: new.clone(),
        ipc: new.clone(),
        uts: new.clone(),
        pid: new.clone(),
        cgroup: new,
    }
}

pub fn process(args: &[&str]) -> Process {
    Process {
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: vec!["PATH=/bin".into()],
        cwd: "/".into(),
        user: WantedUser::default(),
        capabilities: container::capabilities::of(&container::capabilities::RequestedCapabilities::default())
            .unwrap(),
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
pub fn start(dir: &Path) -> ContainerSpec {
    let made = |name: &str| -> PathBuf {
        let path = dir.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    ContainerSpec {
        id: "c1".into(),
        rootfs: Rootfs {
            lowers: vec![made("layer")],
            upper: made("rw/upper"),
            work: made("rw/work"),
            read_only: false,
            owners: Owners::Idmap,
            label: None,
        },
        mounts: Vec::new(),
        volumes: Vec::new(),
        namespaces: spaces(NamespaceSpec::New),
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

/// Permissions that name one user and one group beside the owner, as the kernel writes them.
pub fn acl(user: u64, group: u64) -> Vec<u8> {
    let (user, group) = (u32::try_from(user).unwrap(), u32::try_from(group).unwrap());
    let nobody = u32::MAX;
    let entries =
        [(1_u16, 7, nobody), (2, 6, user), (4, 4, nobody), (8, 4, group), (16, 6, nobody), (32, 0, nobody)];
    let entry = |(kind, permissions, id): (u16, u16, u32)| {
        [&kind.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    [2, 0, 0, 0].into_iter().chain(entries.into_iter().flat_map(entry)).collect()
}

pub fn owner(path: &Path) -> (u64, u64) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.uid().into(), metadata.gid().into())
}

/// Makes it ready and looks at it there.
pub fn inside<T: Send>(
    start: &ContainerSpec,
    dir: &Path,
    look: impl Fn(&PreparedRootfs) -> T + Send + Sync,
) -> Result<T, Error> {
    let stage = dir.join("stage");
    fs::create_dir_all(&stage).unwrap();
    fs::set_permissions(&stage, fs::Permissions::from_mode(0o755)).unwrap();
    let kernel = Live::default();
    let held = from_host(&kernel, start)?;
    in_private_mount_namespace(|namespace| {
        let made = prepare_rootfs(&kernel, start, held, Stage { dir: &stage, namespace })?;
        Ok(look(&made))
    })
    .unwrap()
}
