use std::fs;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::files::{children, gone, read, try_write, write};
use crate::find::Kind;
use crate::group::{Group, Place};

/// `rmdir` fails with EBUSY for a moment after the last process of a group has exited.
const REMOVAL_TRIES: u32 = 60;
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl Group {
    /// Creates its directory and the missing parents in every hierarchy. A group that exists is no error.
    pub fn make(&self) -> Result<()> {
        self.places.iter().try_for_each(Place::make)
    }

    /// Creates its directory in a parent that has processes: enables no controller there, which would make both useless for
    /// processes (`domain invalid`).
    pub(crate) fn make_without_controllers(&self) -> Result<()> {
        self.places.iter().try_for_each(|place| create(&place.dir))
    }

    /// Migrates a process into it, in every hierarchy. Fails if the process has exited or the group does not exist.
    pub fn add(&self, pid: u32) -> Result<()> {
        self.places.iter().try_for_each(|place| write(&place.dir.join("cgroup.procs"), &pid.to_string()))
    }

    /// Removes it and the groups below it from every hierarchy. A group that does not exist is no error. Fails with EBUSY
    /// if it has processes: call [`Group::kill_all`] first.
    pub fn remove(&self) -> Result<()> {
        self.places.iter().try_for_each(|place| remove(&place.dir))
    }
}

impl Place {
    fn make(&self) -> Result<()> {
        let below = self.dir.strip_prefix(&self.hierarchy.root).unwrap_or(Path::new(""));
        let mut reached = self.hierarchy.root.clone();
        for part in below.components() {
            self.hand_down(&reached)?;
            reached.push(part);
            create(&reached)?;
            if self.hierarchy.kind == Kind::Split && self.has("cpuset") {
                inherit(&reached, "cpuset.cpus")?;
                inherit(&reached, "cpuset.mems")?;
            }
        }
        Ok(())
    }

    /// Enables all controllers for the children of `dir` in the unified hierarchy (`cgroup.subtree_control`). A
    /// controller that cannot be enabled is reported by [`Group::apply`] when a limit needs it.
    fn hand_down(&self, dir: &Path) -> Result<()> {
        if self.hierarchy.kind == Kind::Split {
            return Ok(());
        }
        let words = |name: &str| Ok::<_, Error>(read(&dir.join(name))?.unwrap_or_default());
        let (has, hands_down) = (words("cgroup.controllers")?, words("cgroup.subtree_control")?);
        for controller in has.split_whitespace().filter(|c| !hands_down.split_whitespace().any(|h| h == *c)) {
            let _ = try_write(&dir.join("cgroup.subtree_control"), &format!("+{controller}"));
        }
        Ok(())
    }
}

fn create(dir: &Path) -> Result<()> {
    match fs::create_dir(dir) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::File { what: "make", path: dir.to_owned(), cause })
        }
        _ => Ok(()),
    }
}

/// A new v1 cpuset has no CPUs and no memory nodes: it takes those of its parent.
fn inherit(dir: &Path, name: &str) -> Result<()> {
    let own = read(&dir.join(name))?.unwrap_or_default();
    let Some(above) = dir.parent().filter(|_| own.trim().is_empty()) else { return Ok(()) };
    match read(&above.join(name))? {
        Some(value) => write(&dir.join(name), value.trim()),
        None => Ok(()),
    }
}

fn remove(dir: &Path) -> Result<()> {
    for child in children(dir)? {
        remove(&child)?;
    }
    let mut pause = Duration::from_millis(1);
    for _ in 0..REMOVAL_TRIES {
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(cause) if gone(&cause) => return Ok(()),
            Err(cause) if cause.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(cause) => return Err(Error::File { what: "remove", path: dir.to_owned(), cause }),
        }
    }
    let cause = io::Error::from(Errno::BUSY);
    Err(Error::File { what: "remove", path: dir.to_owned(), cause })
}
