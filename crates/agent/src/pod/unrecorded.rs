//! A pod that runs and has no record: the state directory has lost it, or a kubelet has started it. The runtime's labels say
//! which pod it is, and its sandbox which host IDs it has.

use ids::IdMapping;
use ids::allocator::Blocks;
use ids::parse::kubelet::KubeletRecord;
use ids::{BlockLength, IdBlock};
use plan::{Plan, UserNamespaceMode, UserNamespacePlan};
use types::PodUid;

use crate::cri::calls::Cri;
use crate::error::{Error, Result};
use admission::Admitted;

/// What the runtime has of a pod without a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unrecorded {
    /// The handler of its newest sandbox.
    pub(crate) handler: String,
    /// Its users.
    pub(crate) users: SandboxUsers,
}

/// The users of a sandbox, as the runtime reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SandboxUsers {
    /// The mapping of its users; `None` in the host's user namespace.
    pub(crate) uids: Option<IdMapping>,
    /// The mapping of its groups.
    pub(crate) gids: Option<IdMapping>,
}

/// The newest of some sandboxes of a pod.
pub(crate) fn newest<'a>(
    sandboxes: impl IntoIterator<Item = &'a cri::PodSandbox>,
) -> Option<&'a cri::PodSandbox> {
    let attempt = |sandbox: &cri::PodSandbox| sandbox.metadata.as_ref().map_or(0, |m| m.attempt);
    sandboxes.into_iter().max_by_key(|sandbox| attempt(sandbox))
}

impl Unrecorded {
    /// What this agent has of the pod in the runtime. `None` if there is nothing, or if another client of the runtime, or a
    /// pod of another name, has a sandbox with the UID.
    ///
    /// # Errors
    /// If the runtime does not respond, the pod has mappings that no block is, or a kubelet has recorded another block.
    pub(crate) async fn find(cri: &Cri, uid: &PodUid, namespace: &str, name: &str) -> Result<Option<Self>> {
        let listed = cri.sandboxes_of_all_clients(uid.as_str()).await?;
        let is_pods = |sandbox: &cri::PodSandbox| {
            let named = sandbox.metadata.as_ref().is_some_and(|m| m.namespace == namespace && m.name == name);
            named && cri.owned.sandbox(sandbox)
        };
        if !listed.iter().all(is_pods) {
            return Ok(None);
        }
        let Some(newest) = newest(&listed) else { return Ok(None) };
        let Some(status) = cri.sandbox_status(&newest.id).await? else { return Ok(None) };
        let users = SandboxUsers::of(&status, uid)?;
        Ok(Some(Self { handler: newest.runtime_handler.clone(), users }))
    }

    /// The plan that gives the pod the user namespace that it has: the one that was made for it rather than that of a new
    /// pod, which could ask for another length.
    pub(crate) fn plan<'a>(&self, admitted: &'a Admitted) -> Option<&'a Plan> {
        let has_own =
            |plan: &&Plan| (plan.user_namespace.mode != UserNamespaceMode::Host) == self.users.uids.is_some();
        admitted.running.iter().chain(admitted.plan.as_ref().ok()).find(has_own)
    }
}

impl SandboxUsers {
    /// Those of the pod's sandbox with this status.
    ///
    /// # Errors
    /// If a map has several lines, or is none.
    pub(crate) fn of(status: &cri::PodSandboxStatus, uid: &PodUid) -> Result<Self> {
        let options = status.linux.as_ref().and_then(|linux| linux.namespaces.as_ref()?.options.as_ref());
        let users = options.and_then(|options| options.userns_options.clone()).unwrap_or_default();
        let is_own = users.mode() == cri::NamespaceMode::Pod && !users.uids.is_empty();
        let one = |lines: &[cri::IdMapping]| match lines {
            _ if !is_own => Ok(None),
            [line] => mapping(line).map(Some),
            _ => Err(Error::config(uid.as_str(), "its sandbox has a map of several lines")),
        };
        Ok(Self { uids: one(&users.uids)?, gids: one(&users.gids)? })
    }

    /// Whether a kubelet's record is of these users. No record is of all: it may be lost.
    pub(crate) fn are_of(self, record: Option<&KubeletRecord>) -> bool {
        record.is_none_or(|record| [self.uids, self.gids] == [Some(record.mapping()); 2])
    }

    /// The blocks that they are; `None` for the host's users, and for what cannot be leased.
    pub(crate) fn blocks(self) -> Option<Blocks> {
        let block = |line: IdMapping| IdBlock::new(line.host().first().into(), line.length()).ok();
        Some(Blocks { uids: block(self.uids?)?, gids: block(self.gids?)? })
    }

    /// As a plan has them.
    pub(crate) fn plan(self) -> UserNamespacePlan {
        match self.uids {
            Some(line) => UserNamespacePlan {
                mode: UserNamespaceMode::Own,
                length: BlockLength::try_from(line.length()).ok(),
            },
            None => UserNamespacePlan { mode: UserNamespaceMode::Host, length: None },
        }
    }

    /// In words.
    pub(crate) fn words(self) -> String {
        match (self.uids, self.gids) {
            (Some(uids), Some(gids)) if uids == gids => format!("host IDs {}", uids.host()),
            (Some(uids), Some(gids)) => {
                format!("host user IDs {} and group IDs {}", uids.host(), gids.host())
            }
            _ => "the host's users".to_owned(),
        }
    }
}

fn mapping(line: &cri::IdMapping) -> Result<IdMapping> {
    let mapping = IdMapping::new(line.container_id.into(), line.host_id.into(), line.length.into());
    mapping.map_err(|e| Error::config("the map of its sandbox", e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(host: u64) -> IdMapping {
        IdMapping::new(0, host, 65_536).unwrap()
    }

    fn record(host: u64) -> KubeletRecord {
        KubeletRecord::of_block(IdBlock::new(host, 65_536).unwrap())
    }

    #[test]
    fn a_record_is_of_a_sandbox_with_the_same_map_of_users_and_groups() {
        let own = SandboxUsers { uids: Some(line(131_072)), gids: Some(line(131_072)) };
        let split = SandboxUsers { gids: Some(line(65_536)), ..own };
        let host = SandboxUsers { uids: None, gids: None };
        assert!(own.are_of(Some(&record(131_072))) && own.are_of(None) && host.are_of(None));
        assert!(!own.are_of(Some(&record(65_536))) && !split.are_of(Some(&record(131_072))));
        assert!(!host.are_of(Some(&record(131_072))), "it would lose its isolation");
        assert_eq!(own.words(), "host IDs 131072-196607");
        assert_eq!(own.blocks().unwrap().uids, IdBlock::new(131_072, 65_536).unwrap());
        assert_eq!(host.blocks(), None);
    }

    #[test]
    fn the_map_of_a_sandbox_is_read_and_one_of_several_lines_is_none() {
        let uid = PodUid::new("u-1").unwrap();
        let of = |mode: cri::NamespaceMode, lines: &[u32]| {
            let lines: Vec<cri::IdMapping> = lines
                .iter()
                .map(|host| cri::IdMapping { host_id: *host, container_id: 0, length: 65_536 })
                .collect();
            let users = cri::UserNamespace { mode: mode.into(), uids: lines.clone(), gids: lines };
            let options = cri::NamespaceOption { userns_options: Some(users), ..Default::default() };
            let namespaces = Some(cri::Namespace { options: Some(options) });
            let linux = Some(cri::LinuxPodSandboxStatus { namespaces });
            SandboxUsers::of(&cri::PodSandboxStatus { linux, ..Default::default() }, &uid)
        };
        let own = of(cri::NamespaceMode::Pod, &[131_072]).unwrap();
        assert_eq!(own, SandboxUsers { uids: Some(line(131_072)), gids: Some(line(131_072)) });
        assert_eq!(own.plan().mode, UserNamespaceMode::Own);
        let host = of(cri::NamespaceMode::Node, &[]).unwrap();
        assert_eq!((host.uids, host.plan().mode), (None, UserNamespaceMode::Host));
        assert!(of(cri::NamespaceMode::Pod, &[131_072, 262_144]).is_err());
    }
}
