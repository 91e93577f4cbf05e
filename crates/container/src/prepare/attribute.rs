//! Attributes of files that name users and groups by number.

use std::path::Path;

use rustix::fs::{lgetxattr, lgetxattr_query};
use rustix::io::Errno;

use super::owner::NewOwner;
use crate::error::{Error, Result};

const CAPABILITIES: &str = "security.capability";
/// Those that do; of what else an image brings, nothing needs to be translated.
pub(super) const NAMING_IDS: [&str; 3] =
    [CAPABILITIES, "system.posix_acl_access", "system.posix_acl_default"];

/// The length of a file's capabilities that name the root of a user namespace, and where that stands.
const CAPABILITIES_WITH_ROOT: usize = 24;
const ROOT_AT: usize = 20;
/// A list of permissions: what it begins with, how long an entry is, and where in it the ID stands.
const ACL_HEADER: usize = 4;
const ACL_ENTRY: usize = 8;
const ACL_ID_AT: usize = 4;
/// The kinds of ACL entries that name a user or a group.
const ACL_USER: u16 = 0x02;
const ACL_GROUP: u16 = 0x08;

/// An attribute, if the file has it.
pub(super) fn read(path: &Path, name: &str) -> Result<Option<Vec<u8>>> {
    let failed = |errno: Errno| Error::File {
        what: "read the attributes of",
        path: path.to_owned(),
        cause: errno.into(),
    };
    let mut value = match lgetxattr_query(path, name) {
        Ok(length) => vec![0; length],
        Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    let length = lgetxattr(path, name, value.as_mut_slice()).map_err(failed)?;
    value.truncate(length);
    Ok(Some(value))
}

impl NewOwner<'_> {
    /// An attribute of a file that changes owner, with the IDs in it translated. `file` is for messages.
    pub(super) fn attribute(self, name: &str, mut raw: Vec<u8>, file: &Path) -> Result<Vec<u8>> {
        if name == CAPABILITIES && raw.len() == CAPABILITIES_WITH_ROOT {
            // They count for one user namespace only, which is known by its root.
            translate(raw.get_mut(ROOT_AT..), |id| self.uid(id, file))?;
        } else if name != CAPABILITIES && NAMING_IDS.contains(&name) {
            for entry in raw.get_mut(ACL_HEADER..).unwrap_or_default().chunks_exact_mut(ACL_ENTRY) {
                let kind = entry.first_chunk().map(|kind| u16::from_le_bytes(*kind));
                match kind {
                    Some(ACL_USER) => translate(entry.get_mut(ACL_ID_AT..), |id| self.uid(id, file))?,
                    Some(ACL_GROUP) => translate(entry.get_mut(ACL_ID_AT..), |id| self.gid(id, file))?,
                    _ => {}
                }
            }
        }
        Ok(raw)
    }
}

/// The number that these four bytes are.
fn translate(bytes: Option<&mut [u8]>, new: impl FnOnce(u32) -> Result<u32>) -> Result<()> {
    if let Some(bytes) = bytes.and_then(|bytes| bytes.first_chunk_mut()) {
        *bytes = new(u32::from_le_bytes(*bytes))?.to_le_bytes();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ids::IdMapping;

    use super::*;
    use ids::IdMappings;

    fn ids() -> IdMappings {
        let line = |host| IdMapping::new(0, host, 10).unwrap();
        IdMappings { uids: vec![line(0x0102_0304)], gids: vec![line(0x0a0b_0c0d)] }
    }

    #[test]
    fn the_root_that_capabilities_count_for_is_translated() {
        let ids = ids();
        let raw: Vec<u8> = (0..20).chain([1, 0, 0, 0]).collect();
        let new = |raw: &[u8]| NewOwner::Mapped(&ids).attribute(CAPABILITIES, raw.to_vec(), Path::new("x"));
        let translated = new(&raw).unwrap();
        assert_eq!((&translated[..20], &translated[20..]), (&raw[..20], &[5, 3, 2, 1][..]));
        assert_eq!(new(&raw[..20]).unwrap(), raw[..20]);
        assert!(new(&(0..20).chain([11, 0, 0, 0]).collect::<Vec<_>>()).is_err());
    }

    #[test]
    fn those_whom_a_list_of_permissions_names_are_translated_and_nobody_else() {
        let ids = ids();
        let owner = [1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff];
        let raw = [&[2, 0, 0, 0], &owner[..], &[2, 0, 6, 0, 3, 0, 0, 0], &[8, 0, 4, 0, 2, 0, 0, 0]].concat();
        let name = "system.posix_acl_access";
        let new = NewOwner::Mapped(&ids).attribute(name, raw.clone(), Path::new("x")).unwrap();
        let user = [2, 0, 6, 0, 7, 3, 2, 1];
        let group = [8, 0, 4, 0, 0x0f, 0x0c, 0x0b, 0x0a];
        assert_eq!(new, [&[2, 0, 0, 0], &owner[..], &user, &group].concat());
        assert_eq!(NewOwner::Same.attribute(name, raw.clone(), Path::new("x")).unwrap(), raw);
    }

    #[test]
    fn what_is_cut_off_is_left_for_the_kernel_to_refuse() {
        let ids = ids();
        for length in 0..12 {
            let raw = vec![2; length];
            let new = NewOwner::Mapped(&ids).attribute("system.posix_acl_default", raw, Path::new("x"));
            assert!(new.is_err() || new.is_ok_and(|new| new.len() == length));
        }
    }
}
