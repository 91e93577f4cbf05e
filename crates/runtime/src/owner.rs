//! Whose pods are in the run directory and below the control group.
//!
//! A server removes what it finds there and has no record of. It must be sure that these are its own leavings:
//! a state directory that is not mounted, or that was mistyped, knows none of the pods that run.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cgroups::Groups;
use durable::Guard;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr, fstat};

use crate::error::{Error, Result};
use crate::files;
use crate::id::Id;
use crate::layout::Layout;

/// Where a control group says whose it is. Only root of the host can read or write it.
const MARK: &str = "trusted.wardlet.owner";
/// Where it says that a server has made it. One that was there before is never removed.
const MADE: &str = "trusted.wardlet.made";

/// The control group that all pods are below, as long as this server has it. It goes with the server if no pod is left
/// in it: the kernel removes none that has anything in it.
#[derive(Debug)]
pub(crate) struct Held(Vec<(PathBuf, Guard)>);

impl Drop for Held {
    fn drop(&mut self) {
        for (path, dir) in &self.0 {
            // This process holds the lock, so no other server uses the directory while it is the one at the path.
            if has(dir, MADE) && is_at(dir, path) {
                let _ = std::fs::remove_dir(path);
            }
        }
    }
}

/// Makes sure that all pods that are there are of this state, and says from now on that they are. The group is
/// ours for as long as it is held.
///
/// # Errors
/// If there is a pod of another state, or a server of another state is at work.
pub(crate) fn claim(layout: &Layout, groups: &Groups, cgroup: &str) -> Result<Held> {
    let own = own_id(layout)?;
    let known: BTreeSet<String> = names(&layout.sandbox_states())?;
    let foreign = |id: &&String| Id::parse(id).is_some() && !known.contains(*id);
    let refused = |id: &String, place: String| Error::Foreign {
        id: id.clone(),
        place,
        state: layout.state().to_owned(),
    };
    let is_owner = files::read::<Id>(&layout.owner())?.as_ref() == Some(&own);
    if !is_owner && let Some(id) = names(&layout.sandbox_runs())?.iter().find(foreign) {
        return Err(refused(id, layout.run().display().to_string()));
    }
    let held = make_and_hold(groups, cgroup)?;
    // In a group without a mark, and on a kernel that keeps none, the run directory has to do.
    let is_ours = |dir: &Guard| mark(dir).map_or(is_owner, |found| found == own.as_str());
    if !held.0.iter().all(|(_, dir)| is_ours(dir))
        && let Some(id) = groups.below(cgroup)?.iter().find(foreign)
    {
        return Err(refused(id, format!("the control group {cgroup}")));
    }
    for (_, dir) in &held.0 {
        let _ = fsetxattr(dir, MARK, own.as_str().as_bytes(), XattrFlags::empty());
    }
    if !is_owner {
        files::write(&layout.owner(), &own)?;
    }
    Ok(held)
}

/// The state's own name, made with its first server.
fn own_id(layout: &Layout) -> Result<Id> {
    if let Some(id) = files::read(&layout.own_id())? {
        return Ok(id);
    }
    let id = Id::random().map_err(|cause| Error::step("read random numbers", cause))?;
    files::write(&layout.own_id(), &id)?;
    Ok(id)
}

/// Made where it is not there, and locked. A server that ends may remove it between the two: then again.
fn make_and_hold(groups: &Groups, cgroup: &str) -> Result<Held> {
    let dirs = groups.dirs(cgroup)?;
    loop {
        let missing: Vec<&PathBuf> = dirs.iter().filter(|dir| !dir.exists()).collect();
        groups.make(cgroup)?;
        for dir in missing.iter().filter(|dir| dir.exists()) {
            // A user that can open the directory can hold its lock for ever. Containers may search it: their own are below.
            let closed = std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o711));
            closed.map_err(|cause| Error::File {
                what: "close to others",
                path: dir.to_path_buf(),
                cause,
            })?;
        }
        let mut held = Held(vec![]);
        for dir in &dirs {
            held.0.extend(hold(dir)?.map(|file| (dir.clone(), file)));
        }
        if held.0.iter().all(|(path, dir)| is_at(dir, path)) {
            for (_, dir) in held.0.iter().filter(|(path, _)| missing.contains(&path)) {
                let _ = fsetxattr(dir, MADE, b"1", XattrFlags::empty());
            }
            return Ok(held);
        }
    }
}

/// Whether this is still the directory that the path leads to.
fn is_at(dir: &Guard, path: &Path) -> bool {
    let (Ok(held), Ok(found)) = (fstat(dir), std::fs::metadata(path)) else { return false };
    (held.st_dev, held.st_ino) == (found.dev(), found.ino())
}

fn has(dir: &Guard, name: &str) -> bool {
    fgetxattr(dir, name, &mut [0; 64]).is_ok()
}

/// The directory of a group, locked; `None` in a hierarchy where it was not made.
fn hold(dir: &Path) -> Result<Option<Guard>> {
    let failed = |what, cause| Error::File { what, path: dir.to_owned(), cause };
    let file = match File::open(dir) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|cause| failed("open", cause))?,
    };
    files::lock(file, dir)?.map(Some).ok_or_else(|| Error::InUse { dir: dir.to_owned() })
}

fn mark(dir: &Guard) -> Option<String> {
    let mut found = [0; 64];
    let length = fgetxattr(dir, MARK, &mut found).ok()?;
    found.get(..length).map(|found| String::from_utf8_lossy(found).into_owned())
}

fn names(dir: &Path) -> Result<BTreeSet<String>> {
    let failed = |cause| Error::File { what: "read", path: dir.to_owned(), cause };
    let entries = std::fs::read_dir(dir).map_err(failed)?;
    let names = entries.map(|entry| Ok(entry.map_err(failed)?.file_name().into_string().ok()));
    names.filter_map(Result::transpose).collect()
}
