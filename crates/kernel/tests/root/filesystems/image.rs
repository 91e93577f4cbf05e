//! Filesystems in a file, through a loop device that the kernel lets go of with its last user.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel::{Access, Filesystem, FilesystemKind};

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
const READ_ONLY: u32 = 1;
const AUTOCLEAR: u32 = 4;

/// The kernel's `struct loop_config`: the backing file, then a `loop_info64` of which only the flags
/// are set.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    numbers: [u64; 5],
    number_and_keys: [u32; 3],
    flags: u32,
    names: [u64; 22],
    reserved: [u64; 8],
}

/// Runs `mkfs` with these arguments; it must succeed.
pub(crate) fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error} (scripts/setup.sh installs it)"));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {words}");
}

/// An empty file of this many MiB, of which nothing is on disk yet.
pub(crate) fn blank(dir: &Path, mebibytes: u64) -> PathBuf {
    let path = dir.join("image");
    File::create(&path).unwrap().set_len(mebibytes << 20).unwrap();
    path
}

/// Mounts the image of a filesystem at `point`.
pub(crate) fn mount(image: &Path, name: &str, access: Access, point: &Path) {
    let (device, _kept_until_mounted) = attach(image, access);
    let source = Some(device.to_str().unwrap().to_owned());
    let kind = FilesystemKind::Other { name: name.to_owned(), source, options: vec![] };
    let mut filesystem = Filesystem { access, ..Filesystem::new(kind) };
    if let (FilesystemKind::Other { options, .. }, Access::ReadOnly) = (&mut filesystem.kind, access) {
        options.push(kernel::FsOption::flag("ro"));
    }
    filesystem.make().unwrap_or_else(|error| panic!("{error}")).attach(point).unwrap();
}

fn attach(image: &Path, access: Access) -> (PathBuf, File) {
    let (writable, read_only) = match access {
        Access::ReadWrite => (true, 0),
        Access::ReadOnly => (false, READ_ONLY),
    };
    let backing = fs::OpenOptions::new().read(true).write(writable).open(image).unwrap();
    let control = File::open("/dev/loop-control").unwrap();
    for _ in 0..100 {
        // SAFETY: the descriptor is open; the question takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        assert!(number >= 0, "{}", std::io::Error::last_os_error());
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = fs::OpenOptions::new().read(true).write(writable).open(&path).unwrap();
        let config = LoopConfig {
            fd: u32::try_from(backing.as_raw_fd()).unwrap(),
            block_size: 0,
            numbers: [0; 5],
            number_and_keys: [0; 3],
            flags: AUTOCLEAR | read_only,
            names: [0; 22],
            reserved: [0; 8],
        };
        // SAFETY: the kernel reads one whole `loop_config`, which this is.
        if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } == 0 {
            return (path, device);
        }
        // Somebody else took it in between.
    }
    panic!("no loop device to be had: {}", std::io::Error::last_os_error());
}
