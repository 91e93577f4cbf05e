//! The defaults of every container.

use types::MountPropagation;

use ids::IdMappings;

use crate::container_spec::{Bind, MountSpec, NamespaceSpec, NamespaceSpecs, NewMount, ReadOnly};

/// Whether a container is privileged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Privilege {
    /// It is not: it can change neither devices nor cgroups.
    #[default]
    Usual,
    /// It is.
    Privileged,
}

/// Masked paths of this machine.
#[must_use]
pub fn masked_paths() -> Vec<String> {
    types::masked_paths(kernel::possible_cpus().iter().copied())
}

/// Read-only paths.
#[must_use]
pub fn read_only_paths() -> Vec<String> {
    types::READ_ONLY_PATHS.map(str::to_owned).into()
}

/// The group of terminals, by custom.
const TTY: u32 = 5;

/// The filesystems that a container has beside its image, each before what is mounted on it.
///
/// The kernel allows some of them only to the owner of the namespace that they show; in a user namespace with the
/// host's network, processes or IPC, those of the host are bind-mounted.
#[must_use]
pub fn mounts(spaces: &NamespaceSpecs, ids: Option<&IdMappings>, privilege: Privilege) -> Vec<MountSpec> {
    let foreign = |space: &NamespaceSpec| spaces.user != NamespaceSpec::Host && *space == NamespaceSpec::Host;
    let access = match privilege {
        Privilege::Usual => "ro",
        Privilege::Privileged => "rw",
    };
    let safe = ["nosuid", "noexec", "nodev"];
    let with = |more: &[&'static str]| [&safe, more].concat();
    let proc = if foreign(&spaces.pid) { bound("/proc", ReadOnly::No) } else { made("proc", "/proc", &safe) };
    let mqueue = if foreign(&spaces.ipc) {
        bound("/dev/mqueue", ReadOnly::No)
    } else {
        made("mqueue", "/dev/mqueue", &safe)
    };
    let sys = if foreign(&spaces.network) {
        bound("/sys", ReadOnly::Recursive)
    } else {
        made("sysfs", "/sys", &with(&[access]))
    };
    vec![
        proc,
        made("tmpfs", "/dev", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        terminals(ids),
        mqueue,
        sys,
        made("cgroup", "/sys/fs/cgroup", &with(&["relatime", access])),
    ]
}

fn terminals(ids: Option<&IdMappings>) -> MountSpec {
    let mut options = vec!["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"];
    // A group that is not mapped is refused by the kernel.
    if ids.is_none_or(|ids| ids.host_group(TTY).is_some()) {
        options.push("gid=5");
    }
    made("devpts", "/dev/pts", &options)
}

fn made(filesystem: &str, target: &str, options: &[&str]) -> MountSpec {
    MountSpec::New(NewMount {
        filesystem: filesystem.to_owned(),
        target: target.into(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
    })
}

fn bound(path: &str, read_only: ReadOnly) -> MountSpec {
    MountSpec::Bind(Bind {
        source: path.into(),
        target: path.into(),
        ids: None,
        read_only,
        propagation: MountPropagation::HostToContainer,
        options: ["nosuid", "noexec", "nodev"].map(str::to_owned).into(),
    })
}
