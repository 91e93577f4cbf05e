//! Where in a container something may be mounted.
//!
//! `/proc` and `/sys` are the kernel's own: a runtime writes labels and settings there before the container's program
//! runs. A volume in their place would receive what is meant for the kernel, and decide what the runtime reads back.

use std::path::{Component, Path};

use rustix::fs::{StatFs, statfs};

use crate::error::{Error, Result};
use crate::spec::Part;

/// Files of `/proc` that LXCFS and its like replace with files of their own. No runtime reads or writes them.
const OVER_PROC: [&str; 8] =
    ["cpuinfo", "diskstats", "loadavg", "meminfo", "slabinfo", "stat", "swaps", "uptime"];

const PROC: u64 = 0x9fa0;
/// Filesystems of which the host has mounts below its `/sys`: sysfs, cgroup, cgroup2, bpf, debugfs, tracefs,
/// securityfs, pstore, efivarfs, selinuxfs, configfs, fusectl, resctrl.
const BELOW_SYS: [u64; 13] = [
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0xcafe_4a11,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6165_676c,
    0xde5e_81e4,
    0xf97c_ff8c,
    0x6265_6570,
    0x6573_5543,
    0x0765_5821,
];
/// On hosts with cgroups of version 1, a tmpfs with a mount for each hierarchy.
const CGROUP_DIR: &str = "/sys/fs/cgroup";

/// Which part of a container's `/` a target is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    /// `/proc` or `/sys`, or below one of them.
    Kernel,
    /// `/dev` itself.
    Dev,
    /// Anywhere else.
    Other,
}

/// Refuses a part whose target is no proper path, or is the kernel's own.
pub(super) fn check(part: Part<'_>) -> Result<Area> {
    let target = part.target();
    let refused = |why| Err(Error::Target { target: target.to_owned(), why });
    let mut components = target.components();
    if components.next() != Some(Component::RootDir) {
        return refused("it is not an absolute path");
    }
    if !components.all(|component| matches!(component, Component::Normal(_))) {
        return refused("it has `.` or `..` in it");
    }
    if target == Path::new("/") {
        return refused("it is the container's root");
    }
    if target == Path::new("/dev") {
        return Ok(Area::Dev);
    }
    let allowed = match (target.strip_prefix("/proc"), target.strip_prefix("/sys"), part) {
        (Err(_), Err(_), _) => return Ok(Area::Other),
        (_, _, Part::New(_)) => true,
        (Ok(below), _, Part::Bind(_, source)) => below_proc(below, source)?,
        (_, Ok(_), Part::Bind(_, source)) => below_sys(source)?,
        _ => false,
    };
    if allowed {
        return Ok(Area::Kernel);
    }
    refused("only the kernel's own filesystems belong at /proc and /sys")
}

fn below_proc(below: &Path, source: &Path) -> Result<bool> {
    if below.as_os_str().is_empty() {
        return Ok(magic(source)? == PROC);
    }
    Ok(OVER_PROC.iter().any(|name| below == Path::new(name)))
}

fn below_sys(source: &Path) -> Result<bool> {
    if BELOW_SYS.contains(&magic(source)?) {
        return Ok(true);
    }
    let device = |path: &Path| rustix::fs::stat(path).map(|found| (found.st_dev, found.st_ino));
    Ok(device(source).is_ok_and(|found| device(Path::new(CGROUP_DIR)) == Ok(found)))
}

fn magic(source: &Path) -> Result<u64> {
    let failed = |errno: rustix::io::Errno| Error::File {
        what: "look at the filesystem of",
        path: source.to_owned(),
        cause: errno.into(),
    };
    let StatFs { f_type, .. } = statfs(source).map_err(failed)?;
    // The constants have 32 bits, and the field is signed.
    Ok(f_type.cast_unsigned() & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use types::MountPropagation;

    use crate::container_spec::{Bind, ImageVolume, ReadOnly};

    fn bind(source: &str, target: &str) -> Result<Area> {
        let bind = Bind {
            source: source.into(),
            target: target.into(),
            ids: None,
            read_only: ReadOnly::No,
            propagation: MountPropagation::None,
            options: Vec::new(),
        };
        check(Part::Bind(&bind, Path::new(source)))
    }

    #[test]
    fn volumes_cannot_take_the_place_of_the_kernels_files() {
        for target in
            ["/proc", "/proc/thread-self/attr", "/proc/sys", "/sys", "/sys/kernel", "/", "/a/../proc", "a"]
        {
            assert!(bind("/tmp", target).is_err(), "{target}");
            let volume = ImageVolume { source: PathBuf::from("/tmp"), target: target.into() };
            assert!(check(Part::Volume(&volume, Path::new("/tmp"))).is_err(), "{target}");
        }
    }

    #[test]
    fn the_kernels_own_files_can_be_shown_where_they_belong() {
        assert_eq!(bind("/proc", "/proc").unwrap(), Area::Kernel);
        assert_eq!(bind("/sys", "/sys").unwrap(), Area::Kernel);
        assert_eq!(bind("/sys/kernel", "/sys/kernel").unwrap(), Area::Kernel);
        assert_eq!(bind("/sys/fs/cgroup", "/sys/fs/cgroup").unwrap(), Area::Kernel);
        assert_eq!(bind("/etc/hostname", "/proc/meminfo").unwrap(), Area::Kernel);
    }

    #[test]
    fn everything_else_is_free() {
        for target in ["/data", "/processes", "/sysroot/x", "/dev/shm", "/etc/hosts"] {
            assert_eq!(bind("/tmp", target).unwrap(), Area::Other, "{target}");
        }
        assert_eq!(bind("/dev", "/dev").unwrap(), Area::Dev);
    }
}
