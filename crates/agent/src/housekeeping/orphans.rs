//! Removal of orphans: what pods of this state directory have in the runtime, in the state directory, in the kubelet's root
//! directory and in the ledger without a record of the pod.
//!
//! A pod is recorded before anything is created for it, and its record is removed last. So an orphan has lost its
//! record: to a damaged disk, to an administrator, or because its state directory was restored from a copy. Sandboxes
//! and containers of other instances and of other clients of the runtime have another annotation or none, and are left;
//! so are directories of pods without the mark of this instance. A kubelet removes what it does not know. Here several
//! agents share one runtime, and an administrator may have put down what looks like a pod's.
//!
//! The agent of a node adopts pods without a record ([`crate::pod::unrecorded`]): there, orphans are those that no source has.
//!
//! Other processes may start and remove pods of the same state directory meanwhile: the runtime is listed before the
//! records are read, and a pod is removed only under its lock, after a second look for its record.
//!
//! Directories without a mark in the root directory of a node are those of a kubelet that was stopped there
//! ([`crate::owned`]).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ids::allocator::State;
use ledger::Lease;
use tokio::task::JoinSet;
use tracing::{info, warn};
use types::PodUid;

use crate::error::{Error, Result};
use crate::housekeeping::stop_orphan;
use crate::housekeeping::teardown::{self, Block};
use crate::housekeeping::traces::{
    Found, LOGS, Traces, add_logs_by_uid, leased, of_labels, of_root, of_state,
};
use crate::pod::lock::{Names, PodLock};
use crate::pod::removal::remove_tree;
use crate::pod::store::Place;
use crate::shared::{Shared, blocking};

/// Removes all orphans but those `wanted`, by UID, and returns how many of them the runtime had something of. A failure is
/// logged: it keeps neither other orphans nor the agent.
pub(crate) async fn collect(shared: Arc<Shared>, wanted: BTreeSet<String>) -> u64 {
    let found = match find(&shared, wanted).await {
        Ok(found) => found,
        Err(error) => {
            warn!("cannot look for pods without a record: {error}");
            return 0;
        }
    };
    let (mut removed, mut of_runtime, mut is_unsettled) = (0_usize, 0, false);
    // At the same time: each takes as long as its containers take to end.
    let mut removals = JoinSet::new();
    for (uid, traces) in found {
        let shared = Arc::clone(&shared);
        removals.spawn(async move {
            let outcome = remove(&shared, &uid, &traces).await;
            Removed { uid, traces, outcome }
        });
    }
    while let Some(done) = removals.join_next().await {
        let Ok(Removed { uid, traces, outcome }) = done else { continue };
        match outcome {
            Ok(Removal::Done) => {
                removed += 1;
                of_runtime += u64::from(traces.sandboxes > 0 || traces.containers > 0);
                is_unsettled |= traces.has_lease || traces.has_files;
                let pod = named(&uid, &traces);
                info!("removed {traces} of pod {pod}: there is no record of it in this state directory");
            }
            Ok(Removal::Managed) => {}
            Err(error) => {
                let pod = named(&uid, &traces);
                warn!("cannot remove {traces} of pod {pod}, which has no record: {error}");
            }
        }
    }
    if removed > 1 {
        info!("removed what was left of {removed} pods without a record");
    }
    let settled = blocking("settling leases", move || {
        let is_old = |lease: &Lease| lease.earlier_boot && lease.state != State::Leased;
        if is_unsettled || shared.ledger.list()?.iter().any(is_old) {
            shared.ledger.settle()?;
        }
        Ok(())
    });
    if let Err(error) = settled.await {
        warn!("cannot check whether released blocks of host IDs are free: {error}");
    }
    of_runtime
}

fn named(uid: &PodUid, traces: &Traces) -> String {
    traces.title.as_ref().map_or_else(|| uid.to_string(), |title| format!("{title} ({uid})"))
}

/// All traces of pods without a record. Without the runtime's answer there are none: what the pods' containers may
/// still use must not be removed.
async fn find(shared: &Arc<Shared>, wanted: BTreeSet<String>) -> Result<Found> {
    let listed = Listed {
        sandboxes: shared.cri.all_sandboxes().await?,
        containers: shared.cri.all_containers().await?,
    };
    unrecorded(shared, listed, wanted).await
}

/// Removes what the pod with this UID has without a record. Nothing is fine, and so is a pod that has a record.
pub(crate) async fn collect_one(shared: &Arc<Shared>, uid: &PodUid) -> Result<()> {
    let listed = Listed {
        sandboxes: shared.cri.sandboxes(uid.as_str()).await?,
        containers: shared.cri.containers(uid.as_str()).await?,
    };
    let found = unrecorded(shared, listed, BTreeSet::new()).await?;
    let Some(traces) = found.get(uid) else { return Ok(()) };
    if remove(shared, uid, traces).await? == Removal::Managed {
        return Err(Error::Managed { pod: named(uid, traces) });
    }
    info!("removed {traces} of pod {}, which had no record", named(uid, traces));
    let shared = Arc::clone(shared);
    blocking("settling leases", move || Ok(shared.ledger.settle().map(drop)?)).await
}

/// What the runtime has of pods of this instance.
struct Listed {
    sandboxes: Vec<cri::PodSandbox>,
    containers: Vec<cri::Container>,
}

/// The traces of pods without a record, but for those `wanted`.
async fn unrecorded(shared: &Arc<Shared>, listed: Listed, wanted: BTreeSet<String>) -> Result<Found> {
    let mut found = Found::new();
    for sandbox in listed.sandboxes {
        if let Some(traces) = of_labels(&mut found, &sandbox.labels) {
            traces.sandboxes += 1;
        }
    }
    for container in listed.containers {
        if let Some(traces) = of_labels(&mut found, &container.labels) {
            traces.containers += 1;
        }
    }
    let shared = Arc::clone(shared);
    blocking("looking for pods without a record", move || {
        of_state(&shared.state, &mut found);
        if let Some(root) = &shared.root_dir {
            of_root(root, &shared.cri.owned, &mut found);
        }
        let homes: Vec<&Path> = [&*shared.state].into_iter().chain(shared.root_dir.as_deref()).collect();
        for holder in leased(&homes, &shared.ledger.list()?) {
            found.entry(holder).or_default().has_lease = true;
        }
        // A directory below `logs` alone may be anything.
        found.retain(|_, traces| traces.is_pods());
        found.retain(|uid, _| !wanted.contains(uid.as_str()));
        found.retain(|uid, _| !Place::new(&shared.state, uid, "", "").has_record());
        if let Some(dir) = &shared.pod_logs_dir {
            found.iter_mut().for_each(|(uid, traces)| traces.add_logs(dir, uid));
            add_logs_by_uid(dir, &mut found);
        }
        Ok(found)
    })
    .await
}

/// Where the pod is. One with volumes in the root directory and in the state directory is found again for the latter.
fn place(shared: &Shared, uid: &PodUid, traces: &Traces) -> Place {
    let root = shared.root_dir.as_deref().filter(|_| traces.has_files || !traces.has_directory);
    let place = Place::new(&shared.state, uid, "", "").with_files_in(root);
    let links = |logs: &PathBuf| Some(logs.parent()?.with_file_name("containers"));
    match traces.logs.first() {
        Some(logs) => {
            let is_own = logs.starts_with(shared.state.join(LOGS));
            Place { log_links: links(logs).filter(|_| !is_own), logs: logs.clone(), ..place }
        }
        None => place,
    }
}

/// A pod whose removal has ended.
struct Removed {
    uid: PodUid,
    traces: Traces,
    outcome: Result<Removal>,
}

/// What has come of the removal of one pod.
#[derive(Debug, PartialEq, Eq)]
enum Removal {
    Done,
    /// Another process manages the pod, or has recorded it meanwhile.
    Managed,
}

async fn remove(shared: &Arc<Shared>, uid: &PodUid, traces: &Traces) -> Result<Removal> {
    let place = place(shared, uid, traces);
    let (state, locked) = (shared.state.clone(), place.clone());
    let Some(lock) = blocking("locking a pod", move || lock(&state, &locked)).await? else {
        return Ok(Removal::Managed);
    };
    let removed = async {
        stop_orphan::stop(shared, uid).await?;
        teardown::all(shared, &place, Block::Released).await
    };
    let removed = removed.await;
    drop(lock);
    removed?;
    for logs in traces.logs.iter().skip(1) {
        remove_tree(logs)?;
    }
    Ok(Removal::Done)
}

/// Takes the lock of a pod without a record. While it is held, no process can record a pod with this UID.
fn lock(state: &Path, place: &Place) -> Result<Option<PodLock>> {
    let _names = Names::lock(state)?;
    if place.has_record() {
        return Ok(None);
    }
    Ok(place.take()?.filter(|_| !place.has_record()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn uid(text: &str) -> PodUid {
        PodUid::new(text).unwrap()
    }

    #[test]
    fn a_pod_that_is_recorded_meanwhile_or_managed_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let orphan = Place::new(dir.path(), &uid("a"), "", "");
        let held = lock(dir.path(), &orphan).unwrap();
        assert!(held.is_some());
        assert!(lock(dir.path(), &orphan).unwrap().is_none(), "another process removes it");
        drop(held);
        // A record that cannot be read is one: the pod may run.
        fs::write(orphan.dir.join("agent.json"), "rubbish").unwrap();
        assert!(lock(dir.path(), &orphan).unwrap().is_none());
    }
}
