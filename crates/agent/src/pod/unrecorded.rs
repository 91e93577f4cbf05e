//! A pod that runs and has no record: the state directory has lost it. The runtime's labels say which pod it is, and its
//! sandbox which host IDs it has.

use ids::IdMapping;
use plan::{Plan, UserNamespaceMode};
use types::PodUid;

use crate::cri::calls::Cri;
use crate::error::{Error, Result};
use admission::Admitted;

/// What the runtime has of a pod without a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unrecorded {
    /// The handler of its newest sandbox.
    pub(crate) handler: String,
    /// The mapping of its users; `None` in the host's user namespace.
    pub(crate) uids: Option<IdMapping>,
    /// The mapping of its groups.
    pub(crate) gids: Option<IdMapping>,
}

impl Unrecorded {
    /// What this instance has of the pod in the runtime. `None` if there is nothing, or if another client of the runtime, or a
    /// pod of another name, has a sandbox with the UID.
    ///
    /// # Errors
    /// If the runtime does not respond, or the pod has mappings that no block is.
    pub(crate) async fn find(cri: &Cri, uid: &PodUid, namespace: &str, name: &str) -> Result<Option<Self>> {
        let listed = cri.sandboxes_of_all_clients(uid.as_str()).await?;
        let is_pods = |sandbox: &cri::PodSandbox| {
            let named = sandbox.metadata.as_ref().is_some_and(|m| m.namespace == namespace && m.name == name);
            named && cri.owned.sandbox(sandbox)
        };
        if !listed.iter().all(is_pods) {
            return Ok(None);
        }
        let attempt = |sandbox: &cri::PodSandbox| sandbox.metadata.as_ref().map_or(0, |m| m.attempt);
        let Some(newest) = listed.iter().max_by_key(|sandbox| attempt(sandbox)) else { return Ok(None) };
        let Some(status) = cri.sandbox_status(&newest.id).await? else { return Ok(None) };
        let options = status.linux.and_then(|linux| linux.namespaces?.options).unwrap_or_default();
        let users = options.userns_options.unwrap_or_default();
        let is_own = users.mode() == cri::NamespaceMode::Pod && !users.uids.is_empty();
        let one = |lines: &[cri::IdMapping]| match lines {
            _ if !is_own => Ok(None),
            [line] => mapping(line).map(Some),
            _ => Err(Error::config(uid.as_str(), "its sandbox has a map of several lines")),
        };
        let handler = newest.runtime_handler.clone();
        Ok(Some(Self { handler, uids: one(&users.uids)?, gids: one(&users.gids)? }))
    }

    /// The plan that gives the pod the user namespace that it has.
    pub(crate) fn plan<'a>(&self, admitted: &'a Admitted) -> Option<&'a Plan> {
        let has_own =
            |plan: &&Plan| (plan.user_namespace.mode != UserNamespaceMode::Host) == self.uids.is_some();
        admitted.plan.as_ref().ok().into_iter().chain(&admitted.running).find(has_own)
    }
}

fn mapping(line: &cri::IdMapping) -> Result<IdMapping> {
    let mapping = IdMapping::new(line.container_id.into(), line.host_id.into(), line.length.into());
    mapping.map_err(|e| Error::config("the map of its sandbox", e.to_string()))
}
