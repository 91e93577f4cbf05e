use std::path::{Path, PathBuf};

const MOUNTS: &str = "/proc/self/mountinfo";

/// What is mounted where, in the order of mounting.
#[derive(Debug, Default)]
pub(super) struct MountTable(Vec<(PathBuf, String)>);

impl MountTable {
    /// That of this process; empty where it cannot be read.
    pub(super) fn own() -> Self {
        std::fs::read_to_string(MOUNTS).map(|text| Self::parse(&text)).unwrap_or_default()
    }

    fn parse(text: &str) -> Self {
        let entry = |line: &str| {
            let (mount, filesystem) = line.split_once(" - ")?;
            let point = mount.split(' ').nth(4)?;
            Some((PathBuf::from(unescaped(point)), filesystem.split(' ').next()?.to_owned()))
        };
        Self(text.lines().filter_map(entry).collect())
    }

    /// The filesystem that a path without symbolic links lies on. Of mounts on one place, the last
    /// hides the others.
    pub(super) fn under(&self, path: &Path) -> Option<&str> {
        let above = self.0.iter().filter(|(point, _)| path.starts_with(point));
        above.max_by_key(|(point, _)| point.components().count()).map(|(_, filesystem)| filesystem.as_str())
    }

    /// A place where this filesystem can be seen.
    pub(super) fn place_of(&self, filesystem: &str) -> Option<&Path> {
        let points = self.0.iter().filter(|(_, f)| f == filesystem).map(|(point, _)| point.as_path());
        points.into_iter().find(|point| self.under(point) == Some(filesystem) && point.is_dir())
    }
}

/// The kernel writes blanks and backslashes as three octal digits behind a backslash.
fn unescaped(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
21 20 0:5 / /srv/my\\040data rw - xfs /dev/sdb rw
22 20 0:6 / /run rw shared:2 - tmpfs tmpfs rw
23 20 0:7 / /run rw - ramfs ramfs rw
";

    #[test]
    fn a_path_lies_on_the_last_mount_of_the_nearest_point_above_it() {
        let table = MountTable::parse(TABLE);
        let under = |path: &str| table.under(Path::new(path)).unwrap().to_owned();
        assert_eq!(under("/srv/my data/a"), "xfs");
        assert_eq!(under("/srv/my"), "ext4");
        assert_eq!(under("/run/x"), "ramfs");
        assert_eq!(table.place_of("tmpfs"), None, "it is hidden");
    }
}
