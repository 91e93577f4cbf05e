//! The start of a node's agent where a kubelet was stopped: what it has left in its root directory and in the runtime is
//! taken over ([`crate::owned`]).
//!
//! Before any pod gets a block, the blocks of the kubelet's pods are entered into the ledger: from its records
//! (`pods/<uid>/userns`) and from the sandboxes, which must agree. So no block is given out that a pod has which no source
//! has named yet. Pods are adopted one by one when their source names them ([`crate::pod::unrecorded`]); those that no
//! source has are ended ([`crate::housekeeping::orphans`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use admission::RunningPods;
use ids::allocator::Blocks;
use ids::parse::kubelet::KubeletRecord;
use ledger::kubelet::read_records;
use ledger::{Holder, LeaseRequest};
use tracing::{error, info, warn};
use types::PodUid;
use types::keys::POD_UID;

use crate::error::{Error, Result};
use crate::housekeeping::traces::leased;
use crate::pod::store::{PODS, Place};
use crate::pod::unrecorded::{SandboxUsers, newest};
use crate::shared::{Shared, blocking};

/// The pods that a kubelet has left running, and that have no record here yet.
#[derive(Debug, Default)]
pub struct TakenOver {
    /// Those with a sandbox that is ready, by UID.
    pub pods: BTreeSet<String>,
    /// Their user namespaces.
    pub users: RunningPods,
}

/// What tells the block of one pod.
#[derive(Debug, Default)]
struct Claim {
    /// What a kubelet has recorded, or why that cannot be read.
    record: Option<std::result::Result<KubeletRecord, String>>,
    /// What the newest sandbox has.
    sandbox: Option<SandboxUsers>,
}

type Claims = BTreeMap<PodUid, Claim>;

impl Claim {
    /// The blocks that the pod has; `None` for the host's users.
    fn blocks(&self) -> std::result::Result<Option<Blocks>, String> {
        let record = match &self.record {
            Some(Ok(record)) => Some(record),
            Some(Err(cause)) if self.sandbox.is_none() => return Err(cause.clone()),
            _ => None,
        };
        match (self.sandbox, record) {
            (Some(users), record) if !users.are_of(record) => {
                let recorded = record.map(|record| record.span().to_string()).unwrap_or_default();
                Err(format!("its record has host IDs {recorded}, and its sandbox has {}", users.words()))
            }
            (Some(users), _) if users.uids.is_some() => {
                users.blocks().map(Some).ok_or_else(|| format!("{} are no block", users.words()))
            }
            (Some(_), _) | (None, None) => Ok(None),
            (None, Some(record)) => {
                record.block().map(|block| Some(Blocks::same(block))).map_err(|e| e.to_string())
            }
        }
    }
}

/// Enters the blocks of a kubelet's pods into the ledger. Call it before the first update of a pod.
///
/// # Errors
/// If the runtime does not respond, or the records or the ledger cannot be read. A pod whose block cannot be entered is
/// logged: it is not adopted, and keeps the block that it has.
pub(crate) async fn take_over(shared: &Arc<Shared>) -> Result<TakenOver> {
    let Some(root) = shared.root_dir.clone() else { return Ok(TakenOver::default()) };
    let listed = shared.cri.all_sandboxes_of_all_clients().await?;
    let mut taken = TakenOver::default();
    let mut claims = Claims::new();
    for (uid, sandboxes) in by_pod(&listed) {
        let own = sandboxes.iter().copied().filter(|sandbox| shared.cri.owned.sandbox(sandbox));
        let Some(newest) = newest(own) else { continue };
        if Place::new(&shared.state, &uid, "", "").has_record() {
            continue;
        }
        let Some(status) = shared.cri.sandbox_status(&newest.id).await? else { continue };
        match SandboxUsers::of(&status, &uid) {
            Ok(users) => {
                claims.insert(uid.clone(), Claim { sandbox: Some(users), record: None });
                let named = newest.metadata.clone().unwrap_or_default();
                shared.left.add(&named.namespace, &named.name, uid.clone());
                taken.users.0.insert((named.namespace, named.name), users.plan());
            }
            Err(cause) => error!("pod {uid}, which has no record here, is not adopted: {cause}"),
        }
        if newest.state() == cri::PodSandboxState::SandboxReady {
            taken.pods.insert(uid.as_str().to_owned());
        }
    }
    let in_runtime: BTreeSet<PodUid> = by_pod(&listed).into_keys().collect();
    let of_shared = Arc::clone(shared);
    let entered = blocking("entering the blocks of a kubelet's pods", move || {
        add_records(&of_shared, &root, &mut claims)?;
        enter(&of_shared, &root, &claims, &in_runtime)
    });
    let entered = entered.await?;
    if !taken.pods.is_empty() || entered > 0 {
        let pods = taken.pods.len();
        info!(
            "{pods} pods run without a record here, as those that a kubelet has started: {entered} blocks of host IDs are entered"
        );
    }
    Ok(taken)
}

fn by_pod(listed: &[cri::PodSandbox]) -> BTreeMap<PodUid, Vec<&cri::PodSandbox>> {
    let mut found: BTreeMap<PodUid, Vec<&cri::PodSandbox>> = BTreeMap::new();
    for sandbox in listed {
        if let Some(uid) = sandbox.labels.get(POD_UID).and_then(|uid| PodUid::new(uid.as_str()).ok()) {
            found.entry(uid).or_default().push(sandbox);
        }
    }
    found
}

/// Adds what is recorded in the root directory, but for pods of other agents and for those that this one has recorded.
fn add_records(shared: &Shared, root: &Path, claims: &mut Claims) -> Result<()> {
    let pods = root.join(PODS);
    if !pods.is_dir() {
        return Ok(());
    }
    for file in read_records(&pods)? {
        let Ok(uid) = PodUid::new(file.pod.as_str()) else { continue };
        let is_free = shared.cri.owned.files(&uid).is_some_and(|dir| shared.cri.owned.is_free(&dir));
        if !is_free || Place::new(&shared.state, &uid, "", "").has_record() {
            continue;
        }
        let claim = claims.entry(uid).or_default();
        claim.record = Some(file.record);
        if let (Some(Err(cause)), Some(users)) = (&claim.record, claim.sandbox) {
            warn!("{}: {cause}; the sandbox of the pod has {}", file.path.display(), users.words());
        }
    }
    Ok(())
}

/// Enters all claims, and returns how many blocks they are.
fn enter(shared: &Shared, root: &Path, claims: &Claims, in_runtime: &BTreeSet<PodUid>) -> Result<usize> {
    let gone = gone(shared, root, in_runtime)?;
    let mut entered = 0;
    for (uid, claim) in claims {
        let blocks = match claim.blocks() {
            Ok(Some(blocks)) => blocks,
            Ok(None) => continue,
            Err(cause) => {
                let file = root.join(PODS).join(uid.as_str());
                error!(
                    "the block of pod {uid} in {} is not entered into the ledger: {cause}",
                    file.display()
                );
                continue;
            }
        };
        let holder = Holder::new(uid.as_str()).map_err(|e| Error::config("metadata.uid", e.to_string()))?;
        let places = Place::new(&shared.state, uid, "", "").with_files_in(Some(root)).owned_by_pod();
        let request = LeaseRequest { places, ..LeaseRequest::new(holder) };
        match shared.ledger.take_over(request, blocks, gone.clone()) {
            Ok(_) => entered += 1,
            Err(cause) => {
                error!("the block {} of pod {uid} is not entered into the ledger: {cause}", blocks.uids)
            }
        }
    }
    Ok(entered)
}

/// The pods of this agent that have a lease and nothing else: another agent has ended them while this one did not run, and
/// may have given their blocks to others.
fn gone(shared: &Shared, root: &Path, in_runtime: &BTreeSet<PodUid>) -> Result<BTreeSet<Holder>> {
    let leases = shared.ledger.list()?;
    let holders = leased(&[shared.state.as_path(), root], &leases).into_iter();
    let is_gone = |uid: &PodUid| shared.cri.owned.files(uid).is_none() && !in_runtime.contains(uid);
    Ok(holders.filter(is_gone).filter_map(|uid| Holder::new(uid.as_str()).ok()).collect())
}

#[cfg(test)]
mod tests {
    use ids::{IdBlock, IdMapping};

    use super::*;

    fn users(host: Option<u64>) -> SandboxUsers {
        let line = host.map(|host| IdMapping::new(0, host, 65_536).unwrap());
        SandboxUsers { uids: line, gids: line }
    }

    fn record(host: u64) -> std::result::Result<KubeletRecord, String> {
        Ok(KubeletRecord::of_block(IdBlock::new(host, 65_536).unwrap()))
    }

    fn blocks(host: u64) -> Blocks {
        Blocks::same(IdBlock::new(host, 65_536).unwrap())
    }

    #[test]
    fn a_pods_block_is_that_of_its_sandbox_and_of_its_record_and_they_agree() {
        let claim = |record, sandbox| Claim { record, sandbox };
        let damaged = || Some(Err("not a userns record".to_owned()));
        let own = users(Some(131_072));
        for (claim, expected) in [
            (claim(Some(record(131_072)), Some(own)), Some(blocks(131_072))),
            // Its record is lost, or its sandbox not made yet.
            (claim(None, Some(own)), Some(blocks(131_072))),
            (claim(Some(record(131_072)), None), Some(blocks(131_072))),
            // What runs is certain.
            (claim(damaged(), Some(own)), Some(blocks(131_072))),
            (claim(None, Some(users(None))), None),
            (Claim::default(), None),
        ] {
            assert_eq!(claim.blocks(), Ok(expected), "{claim:?}");
        }
        let cause = claim(Some(record(65_536)), Some(own)).blocks().unwrap_err();
        assert!(cause.contains("65536-131071") && cause.contains("131072-196607"), "{cause}");
        let cause = claim(Some(record(65_536)), Some(users(None))).blocks().unwrap_err();
        assert!(cause.contains("65536-131071") && cause.contains("the host's users"), "{cause}");
        assert!(claim(damaged(), None).blocks().is_err());
    }
}
