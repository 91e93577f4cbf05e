//! The least that is a FUSE server: a root directory, and a word on whether it can be idmapped.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use kernel::{Filesystem, FilesystemKind, FsOption, Unmount};

/// Who the root directory belongs to, in the filesystem's own numbers.
pub(crate) const OWNER: u32 = 9;

/// Whether the server can do with translated IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agrees {
    Yes,
    No,
}

const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const INIT: u32 = 26;
const ENOSYS: i32 = -libc::ENOSYS;
const INIT_EXT: u32 = 1 << 30;
/// Bit 40 of the flags, so bit 8 of their second half.
const ALLOW_IDMAP: u32 = 1 << 8;

/// A mounted filesystem with its server's thread, both gone when this is.
pub(crate) struct Served {
    point: std::path::PathBuf,
    server: Option<JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let unmounted = kernel::unmount(&self.point, Unmount::Lazy);
        assert!(unmounted.is_ok() || thread::panicking(), "{unmounted:?}");
        // Clones of the mount go with the namespace; then reading fails and the thread ends.
        drop(self.server.take());
    }
}

fn device() -> File {
    let path = Path::new("/dev/fuse");
    if !path.exists() {
        // A kernel that has it as a module makes the device when that is loaded.
        super::image::run("modprobe", &["fuse"]);
    }
    std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
}

fn mount(device: &File, point: &Path) {
    let options = vec![
        FsOption::new("fd", device.as_raw_fd()),
        FsOption::new("rootmode", "40000"),
        FsOption::new("user_id", 0),
        FsOption::new("group_id", 0),
        FsOption::flag("default_permissions"),
        FsOption::flag("allow_other"),
    ];
    let kind = FilesystemKind::Other { name: "fuse".into(), source: Some("test".into()), options };
    let made = Filesystem::new(kind).make().unwrap_or_else(|error| panic!("{error}"));
    made.attach(point).unwrap();
}

/// Mounted, and nobody ever answers.
pub(crate) fn silent(point: &Path) -> (File, Served) {
    let device = device();
    mount(&device, point);
    (device, Served { point: point.to_owned(), server: None })
}

/// Mounted and served. Returns when both sides have agreed on what they can.
pub(crate) fn serve(point: &Path, agrees: Agrees) -> Served {
    let device = Arc::new(device());
    mount(&device, point);
    answer(&device, agrees);
    let theirs = Arc::clone(&device);
    let server = thread::spawn(move || while answer(&theirs, agrees) {});
    Served { point: point.to_owned(), server: Some(server) }
}

/// Answers one request; `false` when there will be no more.
fn answer(device: &File, agrees: Agrees) -> bool {
    let mut request = vec![0u8; 1 << 17];
    let mut reading = device;
    let Ok(length) = reading.read(&mut request) else { return false };
    let number = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
    assert!(length >= 40, "a request without a head");
    let (opcode, unique) = (number(4), u64::from_ne_bytes(request[8..16].try_into().unwrap()));
    let (error, body) = match opcode {
        INIT => (0, init(agrees)),
        GETATTR => (0, attributes()),
        LOOKUP => (-libc::ENOENT, vec![]),
        _ => (ENOSYS, vec![]),
    };
    let length = u32::try_from(16 + body.len()).unwrap();
    let head = [&length.to_ne_bytes()[..], &error.to_ne_bytes(), &unique.to_ne_bytes()].concat();
    // A request that was given up in the meantime cannot be answered.
    let mut writing = device;
    let _ = writing.write(&[head, body].concat());
    true
}

/// `struct fuse_init_out`: version 7.41, no limits of note, and the one flag that matters.
fn init(agrees: Agrees) -> Vec<u8> {
    let (flags, more_flags) = match agrees {
        Agrees::Yes => (INIT_EXT, ALLOW_IDMAP),
        Agrees::No => (0, 0),
    };
    let mut words = [0u32; 16];
    // Version, read-ahead, flags, background requests (two halves), largest write, granularity of time.
    words[..7].copy_from_slice(&[7, 41, 65_536, flags, 0, 65_536, 1]);
    words[8] = more_flags;
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// `struct fuse_attr_out` of the root directory, not to be kept.
fn attributes() -> Vec<u8> {
    let mut words = [0u32; 26];
    // Two words each: validity, its fraction, number, size, blocks; then times and their fractions.
    words[4] = 1;
    words[19..23].copy_from_slice(&[0o040_755, 2, OWNER, OWNER]);
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
