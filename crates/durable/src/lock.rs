//! Locks between processes: flock(2) with a deadline and the name of the holder.
//!
//! A lock belongs to one opening of a file. It ends when the last descriptor of that opening is closed, and so with the
//! process that holds it, however that ends.

use std::fmt;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, Stat, flock, fstat, major, minor};
use rustix::io::{Errno, retry_on_intr};

use crate::error::{Error, Result};
use crate::ownership::{foreign_owner, untrusted};

/// How often a lock file that another process removes is created anew before the lock counts as taken.
const ATTEMPTS: u32 = 100;
/// A user that can open a lock file can hold it for ever.
const MODE: u32 = 0o600;

/// A lock file. It is opened anew for each acquisition, so that threads of one process exclude each other too.
#[derive(Debug, Clone)]
pub struct Lock {
    path: PathBuf,
}

impl Lock {
    /// The lock of the file at `path`, which the first acquisition creates with mode 0600. A symbolic link, a file
    /// with several names and one of another user are refused.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Takes the lock unless another opening holds it: `None` then.
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        for _ in 0..ATTEMPTS {
            match Guard::try_lock(self.open()?, &self.path)? {
                Some(guard) if !self.is_current(&guard)? => {}
                outcome => return Ok(outcome),
            }
        }
        Ok(None)
    }

    /// Takes the lock, and waits for it up to `patience`.
    pub fn acquire(&self, patience: Duration) -> Result<Guard> {
        for _ in 0..ATTEMPTS {
            let guard = Guard::lock(self.open()?, &self.path, patience)?;
            if self.is_current(&guard)? {
                return Ok(guard);
            }
        }
        Err(Error::Locked { path: self.path.clone(), waited: patience, holder: None })
    }

    /// Takes the lock, and waits for it as long as another process holds it.
    pub fn wait(&self) -> Result<Guard> {
        loop {
            let guard = Guard::wait(self.open()?, &self.path)?;
            if self.is_current(&guard)? {
                return Ok(guard);
            }
        }
    }

    /// Whether an opening holds the lock. It is held in shared mode for the moment of the test.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let Ok(file) = File::options().write(true).open(&self.path) else { return false };
        retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockShared)) == Err(Errno::WOULDBLOCK)
    }

    /// Opens the lock file, and closes one that was left open to others.
    fn open(&self) -> Result<File> {
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true).mode(MODE);
        // A link would have a file made or closed elsewhere, and a FIFO would block.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file =
            options.custom_flags(flags).open(&self.path).map_err(|cause| {
                match Errno::from_io_error(&cause) {
                    Some(Errno::LOOP) => untrusted(&self.path, "is a symbolic link".to_owned()),
                    _ => Error::io("open", &self.path)(cause),
                }
            })?;
        let found = file.metadata().map_err(Error::io("read", &self.path))?;
        if let Some(reason) = weakness(&found) {
            return Err(untrusted(&self.path, reason));
        }
        if found.permissions().mode() & 0o077 != 0 {
            let closed = file.set_permissions(fs::Permissions::from_mode(MODE));
            closed.map_err(Error::io("close to others", &self.path))?;
        }
        Ok(file)
    }

    /// Whether the path still leads to the file that was locked: the lock of one that was removed since excludes no
    /// process that comes later.
    fn is_current(&self, guard: &Guard) -> Result<bool> {
        let held = fstat(guard).map_err(Error::io("read", &self.path))?;
        Ok(fs::metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == (held.st_dev, held.st_ino)))
    }
}

/// Why a file is not used as a lock, if it is not.
fn weakness(found: &fs::Metadata) -> Option<String> {
    if !found.is_file() {
        return Some("is not a regular file".to_owned());
    }
    if found.nlink() > 1 {
        return Some(format!("has {} names (hard links)", found.nlink()));
    }
    foreign_owner(found.uid())
}

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub struct Guard {
    file: OwnedFd,
    on_drop: OnDrop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnDrop {
    Release,
    Keep,
}

impl AsFd for Guard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Guard {
    fn new(file: OwnedFd) -> Self {
        Self { file, on_drop: OnDrop::Release }
    }

    /// Locks an open file or directory, unless another opening holds the lock: `None` then. `path` is for messages.
    pub fn try_lock(file: impl Into<OwnedFd>, path: &Path) -> Result<Option<Self>> {
        let file = file.into();
        match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => Ok(Some(Self::new(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(Error::io("lock", path)(errno)),
        }
    }

    /// Locks an open file or directory, and waits for it up to `patience`.
    ///
    /// A lock that is free costs one system call. Otherwise a thread waits, because flock(2) has no deadline and hands
    /// the lock over in turn, which repeated attempts do not. A thread whose caller has given up releases the lock as
    /// soon as it gets it.
    pub fn lock(file: impl Into<OwnedFd>, path: &Path, patience: Duration) -> Result<Self> {
        let file = file.into();
        match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => return Ok(Self::new(file)),
            Err(Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(Error::io("lock", path)(errno)),
        }
        let found = fstat(&file).map_err(Error::io("read", path))?;
        let (sender, receiver) = mpsc::channel();
        let waiting = move || {
            let locked = retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
            // Without a receiver the guard is dropped here.
            let _ = sender.send(locked.map(|()| Self::new(file)));
        };
        let thread = std::thread::Builder::new().name("lock".to_owned()).spawn(waiting);
        thread.map_err(Error::io("wait for", path))?;
        match receiver.recv_timeout(patience) {
            Ok(locked) => locked.map_err(Error::io("lock", path)),
            Err(_) => {
                Err(Error::Locked { path: path.to_owned(), waited: patience, holder: Holder::of(&found) })
            }
        }
    }

    /// Locks an open file or directory, and waits for it as long as another process holds it.
    pub fn wait(file: impl Into<OwnedFd>, path: &Path) -> Result<Self> {
        let file = file.into();
        retry_on_intr(|| flock(&file, FlockOperation::LockExclusive)).map_err(Error::io("lock", path))?;
        Ok(Self::new(file))
    }

    /// The descriptor, with the lock: it is held until every copy of the descriptor is closed, those that other
    /// processes inherit among them.
    pub fn into_fd(mut self, path: &Path) -> Result<OwnedFd> {
        let fd = self.file.try_clone().map_err(Error::io("keep the lock of", path))?;
        self.on_drop = OnDrop::Keep;
        Ok(fd)
    }
}

impl Drop for Guard {
    /// Releases the lock, also where a child that was forked and has not executed its program yet holds a copy of the
    /// descriptor.
    fn drop(&mut self) {
        if self.on_drop == OnDrop::Release {
            // This fails only for a descriptor that is closed; closing releases the lock as well.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// A process that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process ID.
    pub pid: u32,
    /// The name of its program; empty if it has ended meanwhile.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name)
    }
}

impl Holder {
    pub(crate) fn name(holder: Option<&Self>) -> String {
        holder.map_or_else(|| "another process".to_owned(), ToString::to_string)
    }

    fn of(file: &Stat) -> Option<Self> {
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let pid = pid_of(&locks, file)?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(Self { pid, name: name.trim().to_owned() })
    }
}

/// The process that holds a flock on a file, by lines such as `1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF`.
///
/// Some filesystems show another device there than stat(2) does; the inode number alone decides then.
fn pid_of(locks: &str, file: &Stat) -> Option<u32> {
    let exact = format!("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), file.st_ino);
    let inode = format!(":{}", file.st_ino);
    let holding = |matches: &dyn Fn(&str) -> bool| {
        locks.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            match fields.as_slice() {
                [_, "FLOCK", _, _, pid, file, ..] if matches(file) => pid.parse().ok(),
                _ => None,
            }
        })
    };
    holding(&|file| file == exact).or_else(|| holding(&|file| file.ends_with(&inode)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn waiting_is_bounded_and_the_holder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::at(dir.path().join("lock"));
        let guard = lock.acquire(Duration::ZERO).unwrap();
        assert!(lock.try_acquire().unwrap().is_none());
        assert!(lock.is_held());
        let Err(Error::Locked { holder: Some(holder), .. }) = lock.acquire(Duration::from_millis(50)) else {
            panic!("the lock was taken twice, or its holder is not known");
        };
        assert_eq!(holder.pid, std::process::id());
        drop(guard);
        // The thread that waited in vain releases the lock when it gets it.
        drop(lock.acquire(LONG).unwrap());
    }

    #[test]
    fn a_waiter_gets_the_lock_when_it_is_released() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::at(dir.path().join("lock"));
        let guard = lock.acquire(LONG).unwrap();
        std::thread::scope(|scope| {
            let waiters =
                [scope.spawn(|| lock.acquire(LONG).map(drop)), scope.spawn(|| lock.wait().map(drop))];
            drop(guard);
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
        });
        assert!(!lock.is_held());
    }

    #[test]
    fn the_lock_of_a_removed_file_excludes_no_one() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::at(dir.path().join("lock"));
        let first = lock.acquire(Duration::ZERO).unwrap();
        fs::remove_file(dir.path().join("lock")).unwrap();
        assert!(!lock.is_held());
        assert!(lock.try_acquire().unwrap().is_some(), "a new file is a new lock");
        drop(first);
    }

    #[test]
    fn a_lock_outlives_its_guard_in_a_copy_of_the_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = Lock::at(&path);
        let copy = lock.acquire(Duration::ZERO).unwrap().into_fd(&path).unwrap();
        assert!(lock.is_held());
        drop(copy);
        assert!(!lock.is_held());
    }

    #[test]
    fn a_directory_can_be_locked() {
        let dir = tempfile::tempdir().unwrap();
        let open = || File::open(dir.path()).unwrap();
        let guard = Guard::lock(open(), dir.path(), Duration::ZERO).unwrap();
        assert!(Guard::try_lock(open(), dir.path()).unwrap().is_none());
        drop(guard);
        assert!(Guard::try_lock(open(), dir.path()).unwrap().is_some());
    }

    #[test]
    fn the_device_decides_between_files_of_one_inode_number() {
        let file = fstat(File::open("/").unwrap()).unwrap();
        let (device, inode) = (format!("{:02x}:{:02x}", major(file.st_dev), minor(file.st_dev)), file.st_ino);
        let other = format!("1: FLOCK  ADVISORY  WRITE 7 fe:fe:{inode} 0 EOF\n");
        let own = format!("2: FLOCK  ADVISORY  WRITE 8 {device}:{inode} 0 EOF\n");
        let posix = format!("3: POSIX  ADVISORY  WRITE 9 {device}:{inode} 0 EOF\n");
        assert_eq!(pid_of(&format!("{other}{own}"), &file), Some(8));
        assert_eq!(pid_of(&other, &file), Some(7));
        assert_eq!(pid_of(&posix, &file), None);
    }
}
