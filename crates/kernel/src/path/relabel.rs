use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use rustix::fs::{OFlags, XattrFlags, getxattr, setxattr};
use rustix::io::Errno;

use super::resolve::{Mounts, Walk, Within};
use super::{Dir, Kind, Node};
use crate::{Error, Result};

const ATTRIBUTE: &str = "security.selinux";
/// Longer than any SELinux label.
const LONGEST: usize = 4096;
/// How deep a tree is walked; each level takes a descriptor. A deeper tree was made on purpose.
const DEPTH: usize = 200;

/// The result of relabelling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Relabelled {
    /// Files that had another label, directories included.
    pub changed: u64,
    /// Files that had this label already.
    pub same: u64,
}

/// Gives what is at `path`, and all below it, one SELinux label. `None` if its filesystem keeps no labels of files,
/// as one that was mounted with a label for all of them.
///
/// The path itself is trusted, what is below it is not: no link is followed, no other mount is entered, and what is
/// labelled is what was found, whatever its name stands for by then.
pub fn relabel(path: &Path, label: &str) -> Result<Option<Relabelled>> {
    // As every other program writes it.
    let value = label.bytes().chain([0]).collect();
    let mut labels = Relabelling { value, done: Relabelled::default() };
    let top = Node::open(path)?;
    match labels.set(&top) {
        Err(Error::Label { errno: Errno::OPNOTSUPP, .. }) => return Ok(None),
        outcome => outcome?,
    }
    if top.stat()?.kind == Kind::Directory {
        labels.below(&top.open_dir()?, DEPTH)?;
    }
    Ok(Some(labels.done))
}

struct Relabelling {
    value: Vec<u8>,
    done: Relabelled,
}

impl Relabelling {
    fn below(&mut self, dir: &Dir, levels: usize) -> Result<()> {
        let failed = |name: &OsStr, errno| Error::Label { path: dir.path().join(name), errno };
        let levels = levels.checked_sub(1).ok_or_else(|| failed(OsStr::new(""), Errno::NAMETOOLONG))?;
        for entry in dir.entries()? {
            let walk = Walk { from: dir.as_fd(), within: Within::NoLinks, mounts: Mounts::StayOnThis };
            let node = match walk.open(Path::new(&entry.name), OFlags::PATH | OFlags::NOFOLLOW) {
                Ok(fd) => Node::new(fd, dir.path().join(&entry.name)),
                // Gone since it was read, or another mount.
                Err(Errno::NOENT | Errno::XDEV) => continue,
                Err(errno) => return Err(failed(&entry.name, errno)),
            };
            self.set(&node)?;
            if node.stat()?.kind == Kind::Directory {
                self.below(&node.open_dir()?, levels)?;
            }
        }
        Ok(())
    }

    /// By the link that /proc has of it: what is held for its name alone cannot be changed otherwise. A symbolic link
    /// that is held is not followed by that.
    fn set(&mut self, node: &Node) -> Result<()> {
        let own = format!("/proc/thread-self/fd/{}", node.as_fd().as_raw_fd());
        if self.is_set(&own) {
            self.done.same += 1;
            return Ok(());
        }
        setxattr(&own, ATTRIBUTE, &self.value, XattrFlags::empty())
            .map_err(|errno| Error::Label { path: node.path().to_owned(), errno })?;
        self.done.changed += 1;
        Ok(())
    }

    fn is_set(&self, own: &str) -> bool {
        let mut found = vec![0; LONGEST];
        let bare = |bytes: &[u8]| bytes.strip_suffix(&[0]).unwrap_or(bytes).to_vec();
        let read = getxattr(own, ATTRIBUTE, &mut found[..]);
        read.is_ok_and(|length| found.get(..length).is_some_and(|found| bare(found) == bare(&self.value)))
    }
}
