use ids::{ContainerId, IdKind, Unmapped, UserNamespace};
use kernel::Owner;

/// Whose numbers the owners of files are written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owners {
    /// The container's: the mount that the pod sees is idmapped, or the pod has no user namespace.
    Container,
    /// The host's, translated by the pod's user namespace: the pod sees the files through no map.
    Translated(UserNamespace),
}

impl Owners {
    /// What a file that is `user`'s and `group`'s inside has on disk.
    pub fn owner(&self, user: ContainerId, group: ContainerId) -> Result<Owner, Unmapped> {
        Ok(Owner { uid: self.number(IdKind::Uid, user)?, gid: self.number(IdKind::Gid, group)? })
    }

    /// What a group inside is on disk.
    pub fn group(&self, group: ContainerId) -> Result<u32, Unmapped> {
        self.number(IdKind::Gid, group)
    }

    fn number(&self, kind: IdKind, id: ContainerId) -> Result<u32, Unmapped> {
        match self {
            Self::Container => Ok(id.get()),
            Self::Translated(namespace) => match namespace.to_host(kind, Some(id))? {
                Some(host) => Ok(host.get()),
                None => Err(Unmapped { kind, id: id.get() }),
            },
        }
    }
}

/// The one user that all containers of the pod run as, init and ephemeral ones too; `run_as` has each
/// container's effective runAsUser. Files that only the pod may read are given to that user.
#[must_use]
pub fn fs_user(run_as: &[Option<ContainerId>]) -> Option<ContainerId> {
    let (first, rest) = run_as.split_first()?;
    let user = (*first)?;
    rest.iter().all(|other| *other == Some(user)).then_some(user)
}

/// The groups that every process of the pod is in besides its own: those listed, then the fsGroup,
/// each once.
#[must_use]
pub fn supplemental_groups(listed: &[ContainerId], fs_group: Option<ContainerId>) -> Vec<ContainerId> {
    let mut groups = Vec::with_capacity(listed.len() + 1);
    for group in listed.iter().copied().chain(fs_group) {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use ids::IdBlock;

    use super::*;

    fn id(n: u64) -> ContainerId {
        ContainerId::try_from(n).unwrap()
    }

    #[test]
    fn where_the_mount_is_idmapped_the_containers_numbers_are_written() {
        assert_eq!(Owners::Container.owner(id(1000), id(0)), Ok(Owner { uid: 1000, gid: 0 }));
    }

    #[test]
    fn where_it_is_not_the_translated_ones_are() {
        let uids = IdBlock::new(65_536, 65_536).unwrap();
        let gids = IdBlock::new(131_072, 65_536).unwrap();
        let owners = Owners::Translated(UserNamespace::Leased { uids, gids });
        assert_eq!(owners.owner(id(0), id(2000)), Ok(Owner { uid: 65_536, gid: 133_072 }));
        let unmapped = owners.owner(id(0), id(70_000)).unwrap_err();
        assert_eq!(unmapped, Unmapped { kind: IdKind::Gid, id: 70_000 });
    }

    #[test]
    fn a_user_is_the_pods_only_if_every_container_says_so() {
        assert_eq!(fs_user(&[]), None);
        assert_eq!(fs_user(&[Some(id(7))]), Some(id(7)));
        assert_eq!(fs_user(&[Some(id(7)), Some(id(7))]), Some(id(7)));
        assert_eq!(fs_user(&[Some(id(7)), Some(id(8))]), None);
        assert_eq!(fs_user(&[Some(id(7)), None]), None);
        assert_eq!(fs_user(&[None, Some(id(7))]), None);
    }

    #[test]
    fn groups_are_handed_on_once_each() {
        assert_eq!(supplemental_groups(&[id(5), id(6), id(5)], Some(id(6))), [id(5), id(6)]);
        assert_eq!(supplemental_groups(&[], Some(id(6))), [id(6)]);
        assert!(supplemental_groups(&[], None).is_empty());
    }
}
