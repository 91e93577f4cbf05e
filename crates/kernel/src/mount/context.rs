//! SELinux contexts of whole mounts. The kernel takes one only when a filesystem is first mounted, and
//! ignores it silently on a bind mount: what is believed is what mountinfo shows afterwards.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::Path;

use super::{MountEntry, MountTable, Unmount, unmount};
use crate::path::Stat;
use crate::{Error, Result};

/// Whether every file of the mount at `point` has this label.
pub fn verify_context(point: &Path, wanted: &str) -> Result<()> {
    let table = MountTable::read()?;
    match table.at(point) {
        Some(mount) => compare(mount, point, wanted),
        None => Err(Error::NotMounted { path: point.to_owned() }),
    }
}

/// The same for a mount just attached, which is unmounted again if it does not have the label.
pub(super) fn verify_mount(mount: BorrowedFd<'_>, point: &Path, wanted: &str) -> Result<()> {
    let id = Stat::mount_id_of(mount).map_err(|errno| Error::Stat { path: point.to_owned(), errno })?;
    let table = MountTable::read()?;
    let found = match table.by_id(id) {
        Some(entry) => compare(entry, point, wanted),
        None => Err(Error::NotMounted { path: point.to_owned() }),
    };
    if found.is_err() {
        unmount(point, Unmount::Lazy)?;
    }
    found
}

fn compare(mount: &MountEntry, point: &Path, wanted: &str) -> Result<()> {
    if mount.context().is_some_and(|found| same_label(found, wanted)) {
        return Ok(());
    }
    Err(Error::OtherContext {
        path: point.to_owned(),
        wanted: wanted.to_owned(),
        found: mount.context().map(str::to_owned),
    })
}

/// The kernel puts categories into its own order and joins neighbours.
fn same_label(one: &str, other: &str) -> bool {
    let parts = |label: &str| {
        let mut parts = label.splitn(4, ':').map(str::to_owned).collect::<Vec<_>>();
        let level = (parts.len() == 4).then(|| parts.pop()).flatten();
        (parts, level.map(|level| level.split('-').map(level_of).collect::<BTreeSet<_>>()))
    };
    parts(one) == parts(other)
}

/// A sensitivity and its categories.
fn level_of(text: &str) -> (String, BTreeSet<String>) {
    let (sensitivity, categories) = text.split_once(':').unwrap_or((text, ""));
    let all = categories.split(',').filter(|part| !part.is_empty()).flat_map(expand).collect();
    (sensitivity.to_owned(), all)
}

/// `c1.c3` is c1, c2 and c3.
fn expand(part: &str) -> Vec<String> {
    let number = |text: &str| text.strip_prefix('c').and_then(|digits| digits.parse::<u16>().ok());
    match part.split_once('.').map(|(first, last)| (number(first), number(last))) {
        Some((Some(first), Some(last))) => (first..=last).map(|number| format!("c{number}")).collect(),
        _ => vec![part.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::same_label;

    #[test]
    fn labels_are_compared_by_meaning() {
        let same = |one, other| same_label(&format!("u:r:t:{one}"), &format!("u:r:t:{other}"));
        assert!(same("s0:c1,c2", "s0:c2,c1"));
        assert!(same("s0:c1.c3", "s0:c1,c2,c3"));
        assert!(same("s0-s0", "s0"));
        assert!(!same("s0:c1", "s0:c1,c2"));
        assert!(!same("s0", "s1"));
        assert!(same_label("u:r:t", "u:r:t") && !same_label("u:r:t", "u:r:x"));
    }
}
