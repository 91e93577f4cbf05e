//! The start of a node's agent where a kubelet was stopped: what it has left in its root directory and in the runtime is
//! taken over ([`crate::owned`]).
//!
//! Before any pod gets a block, the blocks of the kubelet's pods are entered into the ledger: from its records
//! (`pods/<uid>/userns`) and from the sandboxes, which must agree. So no block is given out that a pod has which no source
//! has named yet. The same is done for recorded pods that run and have no lease: their block could not be entered before.
//! Pods are adopted one by one when their source names them ([`crate::pod::unrecorded`]); those that no source has are ended
//! ([`crate::housekeeping::orphans`]).

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
use crate::pod::pod_files::PodFiles;
use crate::pod::store::{PODS, Place, Stored, stored};
use crate::pod::unrecorded::{SandboxUsers, newest};
use crate::shared::{Shared, blocking};
use crate::status::view::PodStatus;

/// The mode of a recorded pod whose block others have, too.
const SHARED: &str = "shared";

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
    let of_shared = Arc::clone(shared);
    let unleased = blocking("reading the blocks of recorded pods", move || unleased(&of_shared)).await?;
    let listed = shared.cri.all_sandboxes_of_all_clients().await?;
    let mut taken = TakenOver::default();
    let mut claims = Claims::new();
    for (uid, sandboxes) in by_pod(&listed) {
        let own = sandboxes.iter().copied().filter(|sandbox| shared.cri.owned.sandbox(sandbox));
        let Some(newest) = newest(own) else { continue };
        let is_ready = is_ready(newest);
        let is_recorded = Place::new(&shared.state, &uid, "", "").has_record();
        if is_recorded && !(is_ready && unleased.contains(&uid)) {
            continue;
        }
        let Some(status) = shared.cri.sandbox_status(&newest.id).await? else { continue };
        match SandboxUsers::of(&status, &uid) {
            Ok(users) => {
                claims.insert(uid.clone(), Claim { sandbox: Some(users), record: None });
                if is_recorded {
                    continue;
                }
                let named = newest.metadata.clone().unwrap_or_default();
                shared.left.add(&named.namespace, &named.name, uid.clone());
                taken.users.0.insert((named.namespace, named.name), users.plan());
            }
            Err(cause) => error!("pod {uid}, whose block is not in the ledger, is not adopted: {cause}"),
        }
        if is_ready && !is_recorded {
            taken.pods.insert(uid.as_str().to_owned());
        }
    }
    let running = by_pod(&listed).into_iter().filter(|(_, all)| all.iter().any(|sandbox| is_ready(sandbox)));
    let running: BTreeSet<PodUid> = running.map(|(uid, _)| uid).collect();
    let of_shared = Arc::clone(shared);
    let entered = blocking("entering the blocks of a kubelet's pods", move || {
        add_records(&of_shared, &root, &mut claims)?;
        enter(&of_shared, &root, &claims, &running)
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

fn is_ready(sandbox: &cri::PodSandbox) -> bool {
    sandbox.state() == cri::PodSandboxState::SandboxReady
}

/// The recorded pods that have a block of their own by their record, and no lease.
fn unleased(shared: &Shared) -> Result<BTreeSet<PodUid>> {
    let (known, _) = stored(&shared.state)?;
    let leases = shared.ledger.list()?;
    let leased: BTreeSet<&str> =
        leases.iter().filter_map(|lease| lease.holder.as_ref().map(Holder::as_str)).collect();
    let is_unleased = |known: &&Stored| has_block(known) && !leased.contains(known.record.uid.as_str());
    Ok(known.iter().filter(is_unleased).map(|known| known.record.uid.clone()).collect())
}

/// Whether a recorded pod that is not over has a block of its own.
fn has_block(known: &Stored) -> bool {
    let is_over = known.status.as_ref().is_some_and(PodStatus::is_terminated);
    !is_over && known.record.mode != SHARED && !known.record.uids.is_empty()
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

/// Adds what is recorded in the root directory, but for pods of other agents and for those that this one has recorded, unless
/// they have a claim already.
fn add_records(shared: &Shared, root: &Path, claims: &mut Claims) -> Result<()> {
    let pods = root.join(PODS);
    if !pods.is_dir() {
        return Ok(());
    }
    for file in read_records(&pods)? {
        let Ok(uid) = PodUid::new(file.pod.as_str()) else { continue };
        let is_free = shared.cri.owned.files(&uid).is_some_and(|dir| shared.cri.owned.is_free(&dir));
        let is_recorded = || Place::new(&shared.state, &uid, "", "").has_record();
        if !is_free || (!claims.contains_key(&uid) && is_recorded()) {
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
fn enter(shared: &Shared, root: &Path, claims: &Claims, running: &BTreeSet<PodUid>) -> Result<usize> {
    let gone = gone(shared, root, running)?;
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

/// The pods of this agent that have a lease, and whose blocks another agent may have given to others while this one did not
/// run.
fn gone(shared: &Shared, root: &Path, running: &BTreeSet<PodUid>) -> Result<BTreeSet<Holder>> {
    let leases = shared.ledger.list()?;
    let holders = leased(&[shared.state.as_path(), root], &leases).into_iter();
    let is_gone = |uid: &PodUid| !running.contains(uid) && has_no_block(root, uid);
    Ok(holders.filter(is_gone).filter_map(|uid| Holder::new(uid.as_str()).ok()).collect())
}

/// Whether no block of a pod is recorded in the root directory. A kubelet removes the record and gives the block to others when
/// the pod has ended; the directory stays until the pod is deleted.
fn has_no_block(root: &Path, uid: &PodUid) -> bool {
    matches!(PodFiles(&root.join(PODS).join(uid.as_str())).recorded_block(), Ok(None))
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

    /// Its block stayed its own for as long as it was not deleted, and the pod that had the block was never adopted.
    #[test]
    fn a_pod_that_has_ended_under_a_kubelet_has_no_block() {
        let root = tempfile::tempdir().unwrap();
        let uid = PodUid::new("0d3a5c1e-0000-4000-8000-000000000001").unwrap();
        assert!(has_no_block(root.path(), &uid));
        let dir = root.path().join(PODS).join(uid.as_str());
        std::fs::create_dir_all(dir.join("volumes")).unwrap();
        assert!(has_no_block(root.path(), &uid), "the directory stays until the pod is deleted");
        let files = PodFiles(&dir);
        files.record_block(IdBlock::new(131_072, 65_536).unwrap()).unwrap();
        assert!(!has_no_block(root.path(), &uid));
        std::fs::write(files.record(), "{").unwrap();
        assert!(!has_no_block(root.path(), &uid), "what cannot be read may be a block");
        // As a kubelet records that a pod has the host's users.
        std::fs::write(files.record(), "").unwrap();
        assert!(has_no_block(root.path(), &uid));
    }
}
