//! Where on the host a program runs with the rights of its owner: mounts that show a file without `nosuid`.
//!
//! All is decided by the mount table alone, so that no server is waited for.

use std::path::{Path, PathBuf};

use kernel::{MountEntry, MountTable};
use plan::SetuidFacts;

/// Files of one filesystem: a directory in it, or a file.
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    /// The filesystem's number.
    pub device: (u32, u32),
    /// Where in it.
    pub root: &'a Path,
}

/// Where special bits of what a pod leaves at `place` count. The path exists, and is free of symbolic links.
pub(crate) fn facts(table: &MountTable, place: &Path) -> SetuidFacts {
    let Some(mount) = covering(table, place) else { return SetuidFacts { here: true, below: false } };
    let root = mount.root.join(place.strip_prefix(&mount.point).unwrap_or(Path::new("")));
    let here = !mount.read_only() && !places(table, Files { device: mount.device, root: &root }).is_empty();
    let below = table.below(place).filter(|mount| is_seen(table, mount));
    SetuidFacts { here, below: below.filter(|mount| !mount.read_only()).any(honours_setuid) }
}

/// Every place of the host at which these files, or some below them, are seen and their special bits count.
#[must_use]
pub fn places(table: &MountTable, files: Files<'_>) -> Vec<PathBuf> {
    let shown = |mount: &MountEntry| {
        let place = match files.root.strip_prefix(&mount.root) {
            Ok(rest) if !rest.as_os_str().is_empty() => mount.point.join(rest),
            Ok(_) => mount.point.clone(),
            Err(_) if mount.root.starts_with(files.root) => mount.point.clone(),
            Err(_) => return None,
        };
        let is_seen = covering(table, &place).is_some_and(|seen| seen.id == mount.id);
        (is_seen && honours_setuid(mount)).then_some(place)
    };
    table.iter().filter(|mount| mount.device == files.device).filter_map(shown).collect()
}

/// Whether special bits of files on this mount count.
#[must_use]
pub fn honours_setuid(mount: &MountEntry) -> bool {
    !mount.options.iter().any(|option| option == "nosuid")
}

/// The mount that is seen at a path.
fn covering<'a>(table: &'a MountTable, path: &Path) -> Option<&'a MountEntry> {
    path.ancestors().find_map(|above| table.at(above))
}

/// Whether no other mount covers it.
fn is_seen(table: &MountTable, mount: &MountEntry) -> bool {
    covering(table, &mount.point).is_some_and(|seen| seen.id == mount.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
21 20 8:2 / /srv rw,nosuid - ext4 /dev/sda2 rw
22 21 8:3 / /srv/below rw - ext4 /dev/sda3 rw
23 20 8:4 / /closed rw,nosuid - ext4 /dev/sda4 rw
24 20 8:4 /part /mnt/part rw - ext4 /dev/sda4 rw
25 20 8:1 /home /home rw,nosuid - ext4 /dev/sda1 rw
26 20 8:5 / /ro ro - ext4 /dev/sda5 ro
";

    fn of(place: &str) -> (bool, bool) {
        let SetuidFacts { here, below } = facts(&MountTable::parse(TABLE).unwrap(), Path::new(place));
        (here, below)
    }

    #[test]
    fn special_bits_count_where_any_mount_shows_the_files_without_nosuid() {
        assert_eq!(of("/var/data"), (true, false));
        assert_eq!(of("/srv/data"), (false, false));
        assert_eq!(of("/srv"), (false, true), "a mount below is not nosuid");
        assert_eq!(of("/"), (true, true));
        assert_eq!(of("/closed"), (true, false), "a part of it is seen at /mnt/part too");
        assert_eq!(of("/closed/other"), (false, false));
        assert_eq!(of("/closed/part/x"), (true, false), "seen at /mnt/part/x too");
        assert_eq!(of("/home/ann"), (false, false), "a nosuid mount of a directory over itself");
        assert_eq!(of("/ro/x"), (false, false), "nothing can be left there");
    }

    #[test]
    fn a_directory_that_is_shown_elsewhere_counts_there() {
        let table = MountTable::parse(TABLE).unwrap();
        let places = places(&table, Files { device: (8, 4), root: Path::new("/part") });
        assert_eq!(places, [PathBuf::from("/mnt/part")]);
    }
}
