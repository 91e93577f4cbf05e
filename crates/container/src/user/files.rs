use std::io::Read;
use std::path::Path;

use kernel::{Dir, Kind, LastLink, Within};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Larger than any real passwd or group file, and small enough for memory and time.
const LARGEST: u64 = 2 << 20;

/// A line of a file with fields between colons.
pub(super) trait Line: Sized {
    /// `None` for a line that is none: other programs pass over it, too.
    fn parse(fields: &[&str]) -> Option<Self>;
}

/// A line of `/etc/passwd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: String,
}

impl Line for Login {
    fn parse(fields: &[&str]) -> Option<Self> {
        let [name, _, uid, gid, rest @ ..] = fields else { return None };
        let home = rest.get(1).copied().unwrap_or_default();
        Some(Self {
            name: named(name)?,
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            home: home.to_owned(),
        })
    }
}

/// A line of `/etc/group`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) gid: u32,
    /// As they are written.
    members: String,
}

impl Group {
    /// A group of the user's own name is its first one, not one of the others.
    pub(super) fn has(&self, user: &str) -> bool {
        self.name != user && !user.is_empty() && self.members.split(',').any(|member| member.trim() == user)
    }
}

impl Line for Group {
    fn parse(fields: &[&str]) -> Option<Self> {
        let [name, _, gid, rest @ ..] = fields else { return None };
        let members = rest.first().copied().unwrap_or_default().to_owned();
        Some(Self { name: named(name)?, gid: gid.parse().ok()?, members })
    }
}

fn named(name: &str) -> Option<String> {
    (!name.is_empty() && !name.starts_with('#')).then(|| name.to_owned())
}

/// The lines of a file of the container's; of one that is not there, none.
///
/// The container may have put anything there: links lead nowhere outside, and only a plain file of a
/// bearable size is opened.
pub(super) fn read<T: Line>(root: &Dir, path: &Path) -> Result<Vec<T>> {
    let node = match root.node(path, Within::AsRoot, LastLink::Follow) {
        Ok(node) => node,
        Err(kernel::Error::Below { errno: Errno::NOENT | Errno::NOTDIR, .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let refused = |why| Error::UnfitFile { file: path.to_owned(), why };
    let stat = node.stat()?;
    if stat.kind != Kind::File {
        return Err(refused("it is not a regular file"));
    }
    let mut text = Vec::new();
    let file = node.reopen(OFlags::RDONLY | OFlags::NONBLOCK)?;
    file.take(LARGEST + 1).read_to_end(&mut text).map_err(|cause| Error::File {
        what: "read",
        path: path.to_owned(),
        cause,
    })?;
    if u64::try_from(text.len()).is_ok_and(|length| length <= LARGEST) {
        return Ok(lines(&String::from_utf8_lossy(&text)));
    }
    Err(refused("it is larger than 2 MiB"))
}

fn lines<T: Line>(text: &str) -> Vec<T> {
    let line = |line: &str| T::parse(&line.trim().split(':').collect::<Vec<_>>());
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_read_and_no_entry_is_without_a_name(text in "([a-z0-9:,#\\n]|\\PC){0,200}") {
            prop_assert!(lines::<Login>(&text).iter().all(|login| !login.name.is_empty()));
            prop_assert!(lines::<Group>(&text).iter().all(|group| !group.has("")));
        }
    }

    #[test]
    fn a_line_that_is_none_is_passed_over() {
        let text = "root:x:0:0:root:/root:/bin/sh\nbroken\nbig:x:99999999999:0::/:\n:x:1:1::/:\n\
                    #off:x:2:2::/:\nshort:x:5:6\n";
        let found: Vec<Login> = lines(text);
        assert_eq!(found.iter().map(|login| login.name.as_str()).collect::<Vec<_>>(), ["root", "short"]);
        assert_eq!((found[0].home.as_str(), found[1].home.as_str()), ("/root", ""));
    }

    #[test]
    fn members_are_between_commas_and_the_users_own_group_is_not_another() {
        let found: Vec<Group> = lines("wheel:x:10:root, ann,,\nann:x:1000:ann\n");
        assert!(found[0].has("ann") && found[0].has("root") && !found[0].has(""));
        assert!(!found[1].has("ann"));
    }
}
