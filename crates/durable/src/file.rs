//! Files that are replaced, created and removed as a whole.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::dir::{sync_dir, sync_parent};
use crate::error::{Error, Result};

/// Records hold what pods are given, secrets among it.
const PRIVATE: u32 = 0o600;
/// How often a temporary file that comes back is removed before the write fails.
const ATTEMPTS: u32 = 8;

/// What a file must outlive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Power loss: file and directory are synced.
    Disk,
    /// The end of the process that writes it, within one boot: nothing is synced.
    Boot,
}

/// A file that readers see with its old content or with its new one, and never with a part.
///
/// Two processes must not write one file at the same time unless their temporary names differ: hold a
/// [`Lock`](crate::Lock), or put the process ID into [`temporary`](Self::temporary).
#[derive(Debug)]
pub struct AtomicFile<'a> {
    /// The directory, if the caller holds it open. Names are passed alone then, so that no symbolic link and no rename
    /// above leads elsewhere; otherwise they are passed as whole paths.
    held: Option<BorrowedFd<'a>>,
    dir: &'a Path,
    name: &'a OsStr,
    temporary: OsString,
    mode: u32,
    lifetime: Lifetime,
}

impl<'a> AtomicFile<'a> {
    /// The file at a path. Its temporary name is `NAME.new`, its mode 0600, and it is to survive power loss.
    #[must_use]
    pub fn at(path: &'a Path) -> Self {
        let name = path.file_name().unwrap_or_default();
        Self::new(None, path.parent().unwrap_or(Path::new("")), name)
    }

    /// The same for a name in a directory that the caller holds open; `dir_path` is for messages.
    #[must_use]
    pub fn within(dir: BorrowedFd<'a>, dir_path: &'a Path, name: &'a str) -> Self {
        Self::new(Some(dir), dir_path, OsStr::new(name))
    }

    fn new(held: Option<BorrowedFd<'a>>, dir: &'a Path, name: &'a OsStr) -> Self {
        let mut temporary = name.to_owned();
        temporary.push(".new");
        Self { held, dir, name, temporary, mode: PRIVATE, lifetime: Lifetime::Disk }
    }

    /// Another name for the temporary file, in the same directory.
    #[must_use]
    pub fn temporary(self, name: impl Into<OsString>) -> Self {
        Self { temporary: name.into(), ..self }
    }

    /// Another mode, before the umask.
    #[must_use]
    pub fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// Another lifetime.
    #[must_use]
    pub fn lifetime(self, lifetime: Lifetime) -> Self {
        Self { lifetime, ..self }
    }

    /// Puts `content` in place of what the file holds, or creates it.
    pub fn replace(&self, content: &[u8]) -> Result<()> {
        self.write_temporary(content)?;
        self.publish().inspect_err(|_| self.discard())
    }

    /// Opens the temporary file, for content that does not fit into memory: write to it, then [`finish`](Self::finish).
    pub fn begin(&self) -> Result<File> {
        self.open_temporary().map_err(Error::io("create", &self.temporary_path()))
    }

    /// Puts what was written since [`begin`](Self::begin) in place of what the file holds.
    pub fn finish(&self, temporary: &File) -> Result<()> {
        self.sync_content(temporary).map_err(Error::io("write", &self.temporary_path()))?;
        self.publish().inspect_err(|_| self.discard())
    }

    /// Creates the file unless there is one: `false` then, and nothing is changed. Of several processes that call this
    /// at the same time, one gets `true`.
    pub fn create(&self, content: &[u8]) -> Result<bool> {
        self.write_temporary(content)?;
        let dir = self.held.unwrap_or(CWD);
        let (from, to) = (self.reach(&self.temporary), self.reach(self.name));
        // A link is made only where nothing is, unlike a rename.
        let linked = linkat(dir, &from, dir, &to, AtFlags::empty());
        self.discard();
        match linked {
            Ok(()) => self.sync_names().map(|()| true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(Error::io("create", &self.path())(errno)),
        }
    }

    /// Renames the temporary file, which is whole, to the file's name.
    pub(crate) fn publish(&self) -> Result<()> {
        let (from, to) = (self.reach(&self.temporary), self.reach(self.name));
        let renamed = match self.held {
            Some(dir) => renameat(dir, from, dir, to).map_err(io::Error::from),
            None => std::fs::rename(from, to),
        };
        renamed.map_err(Error::io("write", &self.path()))?;
        self.sync_names()
    }

    fn write_temporary(&self, content: &[u8]) -> Result<()> {
        let mut file = self.begin()?;
        file.write_all(content).and_then(|()| self.sync_content(&file)).map_err(|cause| {
            self.discard();
            Error::io("write", &self.temporary_path())(cause)
        })
    }

    fn sync_content(&self, file: &File) -> io::Result<()> {
        match self.lifetime {
            Lifetime::Disk => file.sync_all(),
            Lifetime::Boot => Ok(()),
        }
    }

    /// A new file: what a killed process left under the name, and what another user put there, is removed and neither
    /// followed nor written to.
    pub(crate) fn open_temporary(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (dir, name) = (self.held.unwrap_or(CWD), self.reach(&self.temporary));
        for _ in 0..ATTEMPTS {
            match openat(dir, &name, flags, Mode::from_raw_mode(self.mode)) {
                Err(Errno::EXIST) => match self.unlink(&name) {
                    Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                    _ => {}
                },
                opened => return Ok(File::from(opened?)),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Removes the temporary file. One that stays is removed by the next write.
    pub(crate) fn discard(&self) {
        let _ = self.unlink(&self.reach(&self.temporary));
    }

    fn unlink(&self, name: &Path) -> io::Result<()> {
        match self.held {
            Some(dir) => unlinkat(dir, name, AtFlags::empty()).map_err(io::Error::from),
            None => std::fs::remove_file(name),
        }
    }

    fn sync_names(&self) -> Result<()> {
        match (self.lifetime, self.held) {
            (Lifetime::Boot, _) => Ok(()),
            (Lifetime::Disk, Some(dir)) => fsync(dir).map_err(Error::io("sync", self.dir)),
            (Lifetime::Disk, None) => sync_dir(self.dir),
        }
    }

    /// What system calls are given for a name.
    fn reach(&self, name: &OsStr) -> PathBuf {
        match self.held {
            Some(_) => name.into(),
            None => self.dir.join(name),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(self.name)
    }

    pub(crate) fn temporary_path(&self) -> PathBuf {
        self.dir.join(&self.temporary)
    }

    /// Reads at most `limit` bytes; `None` if there is no file. A symbolic link is an error in a directory that is held, and what
    /// is no regular file is one anywhere: a named pipe would be waited for.
    pub fn read(&self, limit: u64) -> Result<Option<Vec<u8>>> {
        let (path, follow) =
            (self.path(), if self.held.is_some() { OFlags::NOFOLLOW } else { OFlags::empty() });
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | follow;
        let file = match openat(self.held.unwrap_or(CWD), self.reach(self.name), flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => File::from(opened.map_err(Error::io("read", &path))?),
        };
        let kind = file.metadata().map_err(Error::io("read", &path))?.file_type();
        // The kernel refuses to read a directory.
        if !kind.is_file() && !kind.is_dir() {
            return Err(Error::io("read", &path)(io::Error::other("it is not a regular file")));
        }
        let mut content = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut content).map_err(Error::io("read", &path))?;
        match u64::try_from(content.len()) {
            Ok(length) if length <= limit => Ok(Some(content)),
            _ => Err(Error::TooLarge { path, limit }),
        }
    }

    /// Removes the file and what a killed writer left beside it; `false` if there was no file.
    pub fn remove(&self) -> Result<bool> {
        self.discard();
        match self.unlink(&self.reach(self.name)) {
            Ok(()) => self.sync_names().map(|()| true),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(Error::io("remove", &self.path())(cause)),
        }
    }
}

/// Puts `content` in place of what the file at `path` holds; it survives power loss when this returns.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    AtomicFile::at(path).replace(content)
}

/// Reads at most `limit` bytes; `None` if there is no file.
pub fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    AtomicFile::at(path).read(limit)
}

/// Removes a file, durably; `false` if there was none.
pub fn remove(path: &Path) -> Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => sync_parent(path).map(|()| true),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(Error::io("remove", path)(cause)),
    }
}

/// Renames a file or directory, durably. Its content must be on disk already.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).map_err(Error::io("rename to", to))?;
    sync_parent(to)?;
    if from.parent() == to.parent() { Ok(()) } else { sync_parent(from) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::fs::{FileType, mknodat};

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        assert_eq!(read(&path, 9).unwrap(), None);
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(read(&path, 3).unwrap().unwrap(), b"two");
        assert!(matches!(read(&path, 2), Err(Error::TooLarge { limit: 2, .. })));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(names(dir.path()), ["record"]);
        assert!(remove(&path).unwrap());
        assert!(!remove(&path).unwrap());
    }

    /// The open of a named pipe waited for a writer.
    #[test]
    fn what_is_no_regular_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let error = read(&path, 9).unwrap_err().to_string();
        assert!(error.contains("pipe: it is not a regular file"), "{error}");
        assert!(matches!(read(dir.path(), 9), Err(Error::Io { action: "read", .. })));
    }

    /// Of many processes that create one file, one does.
    #[test]
    fn a_file_is_created_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        let won = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|number: u8| {
                    let path = &path;
                    scope.spawn(move || {
                        AtomicFile::at(path).temporary(format!("record.{number}")).create(&[number]).unwrap()
                    })
                })
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).filter(|won| *won).count()
        });
        assert_eq!(won, 1);
        assert_eq!(names(dir.path()), ["record"]);
    }

    /// Root wrote through a link that another user had put under the temporary name.
    #[test]
    fn a_link_under_the_temporary_name_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("record"), dir.path().join("victim"));
        std::fs::write(&victim, "kept").unwrap();
        for left in ["symbolic", "hard"] {
            match left {
                "symbolic" => symlink(&victim, dir.path().join("record.new")).unwrap(),
                _ => std::fs::hard_link(&victim, dir.path().join("record.new")).unwrap(),
            }
            write(&path, left.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), left);
        }
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_content_and_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("inside"), "").unwrap();
        let error = write(&path, b"new").unwrap_err();
        assert!(matches!(&error, Error::Io { action: "write", .. }), "{error}");
        assert_eq!(names(dir.path()), ["record"]);
        assert_eq!(names(&path), ["inside"]);
    }

    /// A directory that is held is the one that is written to, whatever its path leads to by then.
    #[test]
    fn a_held_directory_is_written_to_after_its_path_leads_elsewhere() {
        let home = tempfile::tempdir().unwrap();
        let (ours, elsewhere) = (home.path().join("ours"), home.path().join("elsewhere"));
        std::fs::create_dir(&ours).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        let held = File::open(&ours).unwrap();
        std::fs::rename(&ours, home.path().join("moved")).unwrap();
        symlink(&elsewhere, &ours).unwrap();
        let file = AtomicFile::within(held.as_fd(), &ours, "record");
        file.replace(b"one").unwrap();
        assert!(!file.create(b"two").unwrap());
        assert_eq!(file.read(9).unwrap().unwrap(), b"one");
        assert_eq!(names(&elsewhere), Vec::<String>::new());
        assert_eq!(names(&home.path().join("moved")), ["record"]);
        assert!(file.remove().unwrap());
        symlink(home.path().join("x"), home.path().join("moved/record")).unwrap();
        assert!(matches!(file.read(9), Err(Error::Io { action: "read", .. })));
    }
}
