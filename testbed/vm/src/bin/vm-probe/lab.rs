//! What the facts are tried with: disks, mounts, labels, and a way to say what was found.

use std::ffi::CString;
use std::fmt::Debug;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use kernel::PrivateMountNamespace;
use rustix::fs::{CWD, XattrFlags, lgetxattr, lsetxattr};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount,
};

/// Whether a fact holds, or what was found instead.
pub(crate) type Outcome = Result<(), String>;

/// The label of one pod's files, that of another's, and that of files which all may have.
pub(crate) const OURS: &str = "system_u:object_r:container_file_t:s0:c1,c2";
pub(crate) const THEIRS: &str = "system_u:object_r:container_file_t:s0:c8,c9";
pub(crate) const SHARED: &str = "system_u:object_r:container_file_t:s0";
pub(crate) const UNKNOWN: &str = "system_u:object_r:nosuch_t:s0";
const XATTR: &str = "security.selinux";

/// Runs a fact where its mounts end with this process.
pub(crate) fn in_private(fact: fn() -> Outcome) -> Outcome {
    let _namespace = PrivateMountNamespace::enter().map_err(|error| error.to_string())?;
    fact()
}

/// Says what was wanted when something else was found.
#[expect(clippy::needless_pass_by_value, reason = "a line per observation, without a borrow in each")]
pub(crate) fn want<T: PartialEq + Debug>(what: &str, found: T, wanted: T) -> Outcome {
    if found == wanted { Ok(()) } else { Err(format!("{what}: found {found:?}, wanted {wanted:?}")) }
}

/// A new directory.
pub(crate) fn dir() -> Result<String, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let path = format!("/tmp/probe-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    fs::create_dir(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok(path)
}

/// An ext4 filesystem with one file, `f`, on a loop device that is gone when this is dropped.
pub(crate) struct Disk {
    pub(crate) device: String,
    image: String,
}

impl Disk {
    pub(crate) fn new() -> Result<Self, String> {
        let image = format!("{}/image", dir()?);
        tool(&["truncate", "-s", "8M", &image])?;
        tool(&["mkfs.ext4", "-q", &image])?;
        let device = tool(&["losetup", "-f"])?;
        tool(&["losetup", &device, &image])?;
        let disk = Self { device, image };
        let mounted = disk.mounted("")?;
        write(&format!("{mounted}/f"))?;
        unmount(&mounted)?;
        Ok(disk)
    }

    /// Mounts it at a new directory, which is returned.
    pub(crate) fn mounted(&self, options: &str) -> Result<String, String> {
        let target = dir()?;
        self.mount(&target, options).map_err(|errno| format!("{} with {options:?}: {errno}", self.device))?;
        Ok(target)
    }

    pub(crate) fn mount(&self, target: &str, options: &str) -> Result<(), Errno> {
        mount(&self.device, target, "ext4", options)
    }

    /// What mounting it somewhere with these options comes to.
    pub(crate) fn try_mount(&self, options: &str) -> Result<Result<(), Errno>, String> {
        let target = dir()?;
        let result = self.mount(&target, options);
        if result.is_ok() {
            unmount(&target)?;
        }
        Ok(result)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = tool(&["losetup", "-d", &self.device]);
        let _ = fs::remove_file(&self.image);
    }
}

/// The option for mount(2), where a comma in the label must not end it.
pub(crate) fn context(label: &str) -> String {
    format!("context=\"{label}\"")
}

/// mount(2).
pub(crate) fn mount(source: &str, target: &str, kind: &str, options: &str) -> Result<(), Errno> {
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount(source, target, kind, MountFlags::empty(), &*options)
}

/// mount(2) at a new directory, which is returned.
pub(crate) fn mounted(kind: &str, options: &str) -> Result<String, String> {
    let target = dir()?;
    mount("none", &target, kind, options).map_err(|errno| format!("{kind} with {options:?}: {errno}"))?;
    Ok(target)
}

pub(crate) fn unmount(target: &str) -> Outcome {
    rustix::mount::unmount(target, UnmountFlags::empty())
        .map_err(|errno| format!("unmount {target}: {errno}"))
}

/// The steps of the newer way to mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Open,
    Set(&'static str),
    Create,
    Mount,
    Move,
}

/// fsopen, fsconfig and fsmount: a mount that is attached nowhere.
pub(crate) fn configure(kind: &str, options: &[(&'static str, &str)]) -> Result<OwnedFd, (Step, Errno)> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| (Step::Open, errno))?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, *value).map_err(|errno| (Step::Set(key), errno))?;
    }
    fsconfig_create(&context).map_err(|errno| (Step::Create, errno))?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        .map_err(|errno| (Step::Mount, errno))
}

/// The newer way to mount, attached to `target`.
pub(crate) fn configure_at(
    target: &str,
    kind: &str,
    options: &[(&'static str, &str)],
) -> Result<(), (Step, Errno)> {
    let fd = configure(kind, options)?;
    move_mount(&fd, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|errno| (Step::Move, errno))
}

/// A file's label.
pub(crate) fn label(path: &str) -> Result<String, String> {
    let mut buffer = vec![0u8; 256];
    let length = lgetxattr(path, XATTR, &mut *buffer).map_err(|errno| format!("label of {path}: {errno}"))?;
    buffer.truncate(length);
    Ok(String::from_utf8_lossy(&buffer).trim_end_matches('\0').to_owned())
}

pub(crate) fn set_label(path: &str, label: &str) -> Result<(), Errno> {
    lsetxattr(path, XATTR, label.as_bytes(), XattrFlags::empty())
}

/// The filesystem's options of what is mounted at `target`, as mountinfo has them last.
pub(crate) fn options(target: &str) -> Result<String, String> {
    let text = fs::read_to_string("/proc/thread-self/mountinfo").map_err(|error| error.to_string())?;
    let line = text.lines().rfind(|line| line.split(' ').nth(4) == Some(target));
    let options = line.and_then(|line| line.rsplit(' ').next());
    options.map(str::to_owned).ok_or_else(|| format!("{target} is not in mountinfo"))
}

pub(crate) fn write(path: &str) -> Outcome {
    fs::write(path, "x").map_err(|error| format!("{path}: {error}"))
}

pub(crate) fn enforcing() -> bool {
    fs::read_to_string("/sys/fs/selinux/enforce").is_ok_and(|text| text.trim() == "1")
}

/// Whether the kernel is older than `major.minor`.
pub(crate) fn older_than(major: u32, minor: u32) -> Result<bool, String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| error.to_string())?;
    let mut numbers = release.split('.').map_while(|part| part.parse::<u32>().ok());
    let running =
        numbers.next().zip(numbers.next()).ok_or_else(|| format!("odd kernel release {release}"))?;
    Ok(running < (major, minor))
}

/// Whether the kernel's log has this text.
pub(crate) fn kernel_said(text: &str) -> Outcome {
    let log = tool(&["dmesg"])?;
    if log.contains(text) { Ok(()) } else { Err(format!("the kernel's log has no {text:?}")) }
}

/// Runs a program that must succeed and returns what it wrote.
pub(crate) fn tool(words: &[&str]) -> Result<String, String> {
    let (program, arguments) = words.split_first().ok_or("no program")?;
    let output = Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether there is such a file.
pub(crate) fn exists(path: &str) -> bool {
    Path::new(path).exists()
}
