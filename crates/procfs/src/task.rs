use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::proc::numbers;
use crate::stat::Stat;

/// The directory of a process or thread, held open: what is read is about that one, or fails.
#[derive(Debug)]
pub struct Task {
    id: u32,
    dir: OwnedFd,
    path: PathBuf,
}

/// A namespace as a link of proc names it, such as `mnt:[4026531841]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceLink {
    /// The kind: `mnt`, `user` and others of namespaces(7).
    pub kind: String,
    /// The inode number, which is unique among those of the host that exist at one moment.
    pub inode: u64,
}

impl NamespaceLink {
    /// From the text of a link. A file can be called so too: believe it only below `ns/` and where a descriptor was
    /// checked to be on nsfs.
    #[must_use]
    pub fn parse(link: &OsStr) -> Option<Self> {
        let text = std::str::from_utf8(link.as_bytes()).ok()?;
        let (kind, rest) = text.split_once(":[")?;
        let inode = rest.strip_suffix(']')?.parse().ok()?;
        Some(Self { kind: kind.to_owned(), inode })
    }
}

impl Task {
    /// The process that has this number in the own `/proc` now.
    pub fn open(pid: u32) -> Result<Self> {
        Self::open_in(CWD, Path::new("/proc"), &format!("/proc/{pid}"), pid)
    }

    /// The calling process.
    pub fn own() -> Result<Self> {
        Self::open(std::process::id())
    }

    pub(crate) fn open_in(at: BorrowedFd<'_>, above: &Path, name: &str, id: u32) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = above.join(name);
        match openat(at, name, flags, Mode::empty()) {
            Ok(dir) => Ok(Self { id, dir, path }),
            Err(errno) => Err(Error::io("open", path)(errno)),
        }
    }

    /// Its process or thread ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its directory, for messages: another process may have the number later.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of it, as a whole, however long it is: [`read_up_to`](Self::read_up_to) is for one that a container can make long.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        self.read_up_to(name, usize::MAX)
    }

    /// The first `most` bytes of a file of it.
    pub fn read_up_to(&self, name: &str, most: usize) -> Result<Vec<u8>> {
        let read = || -> rustix::io::Result<Vec<u8>> {
            let file = openat(&self.dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            let mut text = Vec::new();
            loop {
                if text.len() >= most {
                    text.truncate(most);
                    return Ok(text);
                }
                text.reserve(4096);
                match rustix::io::read(&file, rustix::buffer::spare_capacity(&mut text)) {
                    Ok(0) => return Ok(text),
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
        };
        read().map_err(Error::io("read", self.path.join(name)))
    }

    /// What `stat` says of it.
    pub fn stat(&self) -> Result<Stat> {
        let format = || Error::Format { path: self.path.join("stat"), why: "a field is missing" };
        Stat::parse(&self.read("stat")?).ok_or_else(format)
    }

    /// Its name, which it chooses itself. Bytes that are not printable are escaped.
    pub fn name(&self) -> Result<String> {
        let name = self.read("comm")?;
        Ok(String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).escape_debug().to_string())
    }

    /// The arguments that it was started with, or what it has put in their place.
    pub fn arguments(&self) -> Result<Vec<Vec<u8>>> {
        let text = self.read("cmdline")?;
        let text = text.strip_suffix(b"\0").unwrap_or(&text);
        Ok(if text.is_empty() { vec![] } else { text.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect() })
    }

    /// What a link of it says, such as `ns/mnt` or `fd/3`.
    pub fn link(&self, name: &str) -> Result<PathBuf> {
        let link =
            readlinkat(&self.dir, name, Vec::new()).map_err(Error::io("read", self.path.join(name)))?;
        Ok(PathBuf::from(OsStr::from_bytes(link.as_bytes())))
    }

    /// The namespace of a kind, such as `mnt`, that it is in.
    pub fn namespace(&self, kind: &str) -> Result<NamespaceLink> {
        let name = format!("ns/{kind}");
        let link = self.link(&name)?;
        let format = || Error::Format { path: self.path.join(&name), why: "it is not a link to a namespace" };
        NamespaceLink::parse(link.as_os_str()).ok_or_else(format)
    }

    /// The numbers of its threads, its own among them.
    pub fn threads(&self) -> Result<Vec<u32>> {
        self.listed("task")
    }

    /// One of its threads.
    pub fn thread(&self, id: u32) -> Result<Self> {
        Self::open_in(self.dir.as_fd(), &self.path, &format!("task/{id}"), id)
    }

    /// The numbers of the descriptors that it has open.
    pub fn descriptors(&self) -> Result<Vec<u32>> {
        self.listed("fd")
    }

    fn listed(&self, name: &str) -> Result<Vec<u32>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = openat(&self.dir, name, flags, Mode::empty()).and_then(|dir| numbers(&dir));
        listed.map_err(Error::io("list", self.path.join(name)))
    }
}

impl AsFd for Task {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_tells_of_itself() {
        let own = Task::own().unwrap();
        assert_eq!(own.id(), std::process::id());
        assert!(!own.stat().unwrap().has_ended());
        assert!(own.threads().unwrap().contains(&own.id()));
        let first_thread = own.thread(own.id()).unwrap();
        assert_eq!(first_thread.stat().unwrap().start_time, own.stat().unwrap().start_time);
        let mounts = own.namespace("mnt").unwrap();
        assert_eq!((mounts.kind.as_str(), mounts.inode > 0), ("mnt", true));
        assert!(!own.arguments().unwrap().is_empty());
        assert!(own.descriptors().unwrap().contains(&0));
    }

    #[test]
    fn no_more_of_a_file_is_read_than_is_wanted() {
        let own = Task::own().unwrap();
        let whole = own.read("mountinfo").unwrap();
        for most in [0, 1, 100, whole.len() - 1] {
            assert_eq!(own.read_up_to("mountinfo", most).unwrap(), whole[..most], "{most}");
        }
        assert_eq!(own.read_up_to("mountinfo", whole.len() + 1).unwrap(), whole);
    }

    /// A path would tell of the next process with the number.
    #[test]
    fn a_process_that_has_ended_tells_nothing() {
        let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
        let held = Task::open(child.id()).unwrap();
        assert_eq!(held.stat().unwrap().parent, std::process::id());
        // It is started before the kernel has set up its arguments.
        while held.arguments().unwrap().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(held.arguments().unwrap().last().unwrap(), b"60");
        child.kill().unwrap();
        child.wait().unwrap();
        for error in [held.stat().unwrap_err(), held.name().unwrap_err(), held.namespace("mnt").unwrap_err()]
        {
            assert!(error.is_gone(), "{error}");
        }
    }

    #[test]
    fn links_to_namespaces_are_told_from_others() {
        let link = |text: &str| NamespaceLink::parse(OsStr::new(text)).map(|link| (link.kind, link.inode));
        assert_eq!(link("user:[4026531837]"), Some(("user".to_owned(), 4_026_531_837)));
        for other in ["socket[5]", "/dev/null", "user:[]", "user:[x]", "user:[5", "pipe:5"] {
            assert_eq!(link(other), None, "{other}");
        }
    }
}
