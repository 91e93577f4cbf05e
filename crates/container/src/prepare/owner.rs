use std::path::Path;

use kernel::Owner;

use crate::error::{Error, Result};
use ids::IdMappings;

/// The owner on disk of a file of the image.
#[derive(Clone, Copy)]
pub(super) enum NewOwner<'a> {
    /// The owner that it has in the image.
    Same,
    /// The host's IDs of that user and group.
    Mapped(&'a IdMappings),
}

impl NewOwner<'_> {
    /// `file` is for messages: the way to it from the image's root.
    pub(super) fn of(self, owner: Owner, file: &Path) -> Result<Owner> {
        Ok(Owner { uid: self.uid(owner.uid, file)?, gid: self.gid(owner.gid, file)? })
    }

    pub(super) fn uid(self, id: u32, file: &Path) -> Result<u32> {
        match self {
            Self::Same => Ok(id),
            Self::Mapped(ids) => ids.host_user(id).ok_or_else(|| unmapped("user", id, file)),
        }
    }

    pub(super) fn gid(self, id: u32, file: &Path) -> Result<u32> {
        match self {
            Self::Same => Ok(id),
            Self::Mapped(ids) => ids.host_group(id).ok_or_else(|| unmapped("group", id, file)),
        }
    }
}

fn unmapped(kind: &'static str, id: u32, file: &Path) -> Error {
    Error::Unmapped { file: Path::new("/").join(file), kind, id }
}

#[cfg(test)]
mod tests {
    use ids::IdMapping;

    use super::*;

    #[test]
    fn an_owner_without_a_host_id_is_named_with_its_file() {
        let line = IdMapping::new(0, 1 << 20, 10).unwrap();
        let ids = IdMappings { uids: vec![line], gids: vec![line] };
        let mapped = NewOwner::Mapped(&ids);
        let of = |uid, gid| mapped.of(Owner { uid, gid }, Path::new("a/b"));
        assert_eq!(of(3, 0).unwrap(), Owner { uid: (1 << 20) + 3, gid: 1 << 20 });
        let message = of(0, 10).unwrap_err().to_string();
        assert_eq!(
            message,
            "/a/b of the image belongs to group 10, which the maps of the container leave out"
        );
        assert_eq!(NewOwner::Same.of(Owner { uid: 99, gid: 99 }, Path::new("")).unwrap().uid, 99);
    }
}
