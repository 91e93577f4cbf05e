//! What the tests of the writer, of ownership and of chownOnce share.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ids::{CallerMapping, ContainerId, IdBlock, IdMapping, UserNamespace};
use kernel::Dir;
use volumes::ownership::{FsGroup, Owners};
use volumes::payload::{Bytes, Mode, Payload, PodFields, Source, Volume};
use volumes::writer::{Error, Writer, Written};

/// The first host ID of the block that tests map to.
pub const BASE: u32 = 1_074_790_400;

pub fn id(n: u32) -> ContainerId {
    ContainerId::try_from(u64::from(n)).unwrap()
}

pub fn block() -> UserNamespace {
    let block = IdBlock::new(BASE.into(), 65_536).unwrap();
    UserNamespace::Leased { uids: block, gids: block }
}

/// Root inside is whoever runs the test: chown to it needs no privilege.
pub fn own_ids() -> Owners {
    let of = |id: u32| vec![IdMapping::new(0, id.into(), 1).unwrap()];
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Owners::Translated(UserNamespace::Caller(CallerMapping::new(of(user), of(group)).unwrap()))
}

pub fn mode(bits: u32) -> Mode {
    Mode::new(bits).unwrap()
}

pub fn file(path: &str, content: &str, bits: u32) -> Bytes {
    Bytes {
        what: "file".to_owned(),
        path: path.to_owned(),
        content: content.as_bytes().to_vec(),
        mode: Some(mode(bits)),
        owner: None,
    }
}

pub fn payload_of(files: impl IntoIterator<Item = Bytes>) -> Payload {
    let sources = files.into_iter().map(Source::Bytes).collect();
    let volume = Volume { name: "v".to_owned(), default_mode: Mode::DEFAULT, sources };
    Payload::of(&volume, &PodFields::default()).unwrap()
}

pub fn payload(files: &[(&str, &str, u32)]) -> Payload {
    payload_of(files.iter().map(|(path, content, bits)| file(path, content, *bits)))
}

pub fn write_as(
    dir: &Path,
    payload: &Payload,
    owners: &Owners,
    fs_group: Option<FsGroup>,
) -> Result<Written, Error> {
    let volume = Dir::open(dir).unwrap();
    Writer { volume: &volume, owners, fs_group }.write(payload)
}

pub fn write(dir: &Path, payload: &Payload) -> Result<Written, Error> {
    write_as(dir, payload, &own_ids(), None)
}

/// Everything below a directory, and itself as `.`: what it is, its mode, owner and content. Nothing is
/// followed.
pub fn snapshot(dir: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    look(dir, ".", &mut found);
    found
}

fn look(path: &Path, name: &str, into: &mut BTreeMap<String, String>) {
    let meta = fs::symlink_metadata(path).unwrap();
    let owner = format!("{:04o} {}:{}", meta.mode() & 0o7777, meta.uid(), meta.gid());
    let kind = meta.file_type();
    let line = if kind.is_symlink() {
        format!("link {}:{} -> {}", meta.uid(), meta.gid(), fs::read_link(path).unwrap().display())
    } else if kind.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let below = if name == "." { String::new() } else { format!("{name}/") };
            let below = format!("{below}{}", String::from_utf8_lossy(entry.file_name().as_bytes()));
            look(&entry.path(), &below, into);
        }
        format!("dir {owner}")
    } else if kind.is_file() {
        format!("file {owner} {}", String::from_utf8_lossy(&fs::read(path).unwrap()))
    } else if kind.is_fifo() {
        format!("fifo {owner}")
    } else {
        format!("other {owner}")
    };
    into.insert(name.to_owned(), line);
}

/// What a reader sees by the visible names: path and content.
pub fn seen(dir: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.starts_with("..") {
            read(&dir.join(&name), &name, &mut found);
        }
    }
    found
}

fn read(path: &Path, name: &str, into: &mut BTreeMap<String, String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let below = format!("{name}/{}", entry.file_name().to_str().unwrap());
            read(&entry.path(), &below, into);
        }
    } else {
        into.insert(name.to_owned(), fs::read_to_string(path).unwrap());
    }
}

/// The only set there may be, and nothing that the writer left behind.
pub fn check_tidy(dir: &Path) {
    let target = fs::read_link(dir.join("..data")).unwrap();
    let reserved: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.starts_with(".."))
        .collect();
    assert_eq!(reserved.len(), 2, "{reserved:?}");
    assert!(reserved.contains(&target.to_str().unwrap().to_owned()), "{reserved:?}");
}

/// How often a race is run: soak asks for 300 rounds, and 10 000 races.
pub fn races() -> usize {
    (testkit::rounds() * 40).clamp(60, 10_000)
}

/// How many cases a property is tried on: some hundreds, or what `PROPTEST_CASES` says, but no more than
/// files can be made for in reasonable time.
pub fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200).min(20_000)
}

/// Runs a script as root of the block's user namespace, and returns what it printed.
pub fn inside(script: &str) -> String {
    use std::os::fd::{AsFd, AsRawFd};
    let maps = kernel::IdMaps::of_block(IdBlock::new(BASE.into(), 65_536).unwrap());
    let userns = kernel::UsernsFd::charged(&maps, kernel::Charge::Caller).unwrap();
    let user = format!("--user=/proc/{}/fd/{}", std::process::id(), userns.as_fd().as_raw_fd());
    let done = std::process::Command::new("nsenter").args([&user, "sh", "-c", script]).output().unwrap();
    let words = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{script}: {words}");
    String::from_utf8(done.stdout).unwrap()
}

/// A directory that IDs of a block can come to. On disk, where capabilities and attributes are real.
pub fn scratch() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// Runs a program that must succeed.
pub fn run(program: &str, arguments: &[&str]) {
    let done = std::process::Command::new(program).args(arguments).output().unwrap();
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Something that goes on in a thread until this is dropped.
pub struct Meanwhile {
    stop: Arc<AtomicBool>,
    times: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Meanwhile {
    /// Comes back when `what` has told for the first time that it did something.
    pub fn again_and_again(mut what: impl FnMut() -> bool + Send + 'static) -> Self {
        let (stop, times) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, counted) = (Arc::clone(&stop), Arc::clone(&times));
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                counted.fetch_add(what().into(), Ordering::Relaxed);
            }
        });
        while times.load(Ordering::Relaxed) == 0 && !thread.is_finished() {
            std::thread::yield_now();
        }
        Self { stop, times, thread: Some(thread) }
    }

    /// How often it did something.
    pub fn times(&self) -> u64 {
        self.times.load(Ordering::Relaxed)
    }
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

/// Exchanges two names, whatever they stand for; failing is fine, and told.
pub fn exchange(a: &Path, b: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).is_ok()
}
