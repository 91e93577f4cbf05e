use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ids::{ContainerId, Unmapped};
use kernel::{Kind, Owner};

use crate::ownership::{FsGroup, Owners};
use crate::payload::{Mode, Payload};

/// A set of files as it shall be on disk: the root, every directory and every file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileSet<'a> {
    /// By path below the root, which is the empty one; a directory comes before what is in it.
    pub(crate) entries: BTreeMap<&'a str, Entry<'a>>,
    /// The names that lead into it.
    pub(crate) visible: BTreeSet<&'a str>,
    /// Whose the links are.
    pub(crate) links: Owner,
    /// What the group gets of the volume's own directory.
    pub(crate) root_adds: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) owner: Owner,
    pub(crate) mode: Mode,
    /// None for a directory.
    pub(crate) content: Option<&'a [u8]>,
}

impl Entry<'_> {
    pub(crate) fn kind(&self) -> Kind {
        if self.content.is_some() { Kind::File } else { Kind::Directory }
    }
}

impl<'a> FileSet<'a> {
    /// The payload with every owner in the numbers of the disk, and every mode with what the group gets.
    /// An owner that cannot be translated is answered with the file's path.
    pub(crate) fn of(
        payload: &'a Payload,
        owners: &Owners,
        fs_group: Option<FsGroup>,
    ) -> Result<Self, (&'a str, Unmapped)> {
        let group = fs_group.map_or(ContainerId::ROOT, |g| g.group);
        let adds = |kind| fs_group.map_or(Mode::cut(0), |g| g.adds(kind));
        let root = owners.owner(ContainerId::ROOT, group).map_err(|unmapped| ("", unmapped))?;
        let directory =
            Entry { owner: root, mode: Mode::DIRECTORY.with(adds(Kind::Directory)), content: None };
        let mut entries = BTreeMap::from([("", directory)]);
        let mut visible = BTreeSet::new();
        for (path, file) in payload.files() {
            visible.insert(path.first());
            entries.extend(path.parents().map(|parent| (parent, directory)));
            let user = file.owner.unwrap_or(ContainerId::ROOT);
            let owner = owners.owner(user, group).map_err(|unmapped| (path.as_str(), unmapped))?;
            let mode = file.mode.with(adds(Kind::File));
            entries.insert(path.as_str(), Entry { owner, mode, content: Some(&file.content) });
        }
        Ok(Self { entries, visible, links: root, root_adds: adds(Kind::Directory) })
    }

    pub(crate) fn get(&self, path: &Path) -> Option<&Entry<'a>> {
        self.entries.get(path.to_str()?)
    }
}

#[cfg(test)]
mod tests {
    use kernel::Access;

    use super::*;
    use crate::payload::{Bytes, PodFields, Source, Volume};

    fn payload(files: &[(&str, u32, Option<u64>)]) -> Payload {
        let sources = files.iter().map(|(path, mode, owner)| {
            Source::Bytes(Bytes {
                what: "file".to_owned(),
                path: (*path).to_owned(),
                content: vec![],
                mode: Some(Mode::new(*mode).unwrap()),
                owner: owner.map(|id| ContainerId::try_from(id).unwrap()),
            })
        });
        let volume = Volume { name: "v".to_owned(), default_mode: Mode::DEFAULT, sources: sources.collect() };
        Payload::of(&volume, &PodFields::default()).unwrap()
    }

    fn shown(set: &FileSet<'_>) -> Vec<String> {
        set.entries.iter().map(|(path, e)| format!("{path} {} {}", e.owner, e.mode)).collect()
    }

    #[test]
    fn a_set_has_every_directory_and_root_owns_what_nobody_else_does() {
        let payload = payload(&[("a/b/c", 0o600, None), ("token", 0o600, Some(1000))]);
        let set = FileSet::of(&payload, &Owners::Container, None).unwrap();
        assert_eq!(
            shown(&set),
            [" 0:0 0755", "a 0:0 0755", "a/b 0:0 0755", "a/b/c 0:0 0600", "token 1000:0 0600"]
        );
        assert_eq!(set.visible, BTreeSet::from(["a", "token"]));
    }

    #[test]
    fn the_group_can_read_what_it_is_given() {
        let payload = payload(&[("a/b", 0o400, None)]);
        let group = FsGroup { group: ContainerId::try_from(2000).unwrap(), access: Access::ReadOnly };
        let set = FileSet::of(&payload, &Owners::Container, Some(group)).unwrap();
        assert_eq!(shown(&set), [" 0:2000 2755", "a 0:2000 2755", "a/b 0:2000 0440"]);
    }

    #[test]
    fn an_owner_outside_the_block_is_named_with_its_file() {
        let block = ids::IdBlock::new(65_536, 65_536).unwrap();
        let owners = Owners::Translated(ids::UserNamespace::Leased { uids: block, gids: block });
        let payload = payload(&[("a", 0o600, Some(5)), ("b", 0o600, Some(65_536))]);
        assert_eq!(FileSet::of(&payload, &owners, None).unwrap_err().0, "b");
    }
}
