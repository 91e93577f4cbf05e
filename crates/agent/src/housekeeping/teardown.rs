//! Removal of a pod: its containers, sandboxes, volumes, logs, host IDs and record. Each step can be
//! repeated.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ledger::{Holder, Lease};
use tracing::warn;
use types::PodUid;

use crate::error::{Error, Result};
use crate::instance::InstanceId;
use crate::pod::notices;
use crate::pod::pod_files::PodFiles;
use crate::pod::store::Place;
use crate::shared::{Shared, blocking};

/// How often the removal is tried, because something may still be in use, and the pause in between.
const TRIES: u32 = 10;
/// How often it is tried while the runtime refuses: containerd takes seconds on a busy machine until it gives up a start whose
/// client has gone, and removes nothing before.
const TRIES_OF_RUNTIME: u32 = 50;
const PAUSE: Duration = Duration::from_millis(200);
/// After how many refusals the pod's shim is killed: three seconds.
const STUCK: u32 = 15;

/// What becomes of the pod's block of host IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    /// It is released, and a census decides whether it is in use.
    Settled,
    /// It is released. The caller has the ledger settle the blocks of several pods at once.
    Released,
}

/// What of a pod is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Everything.
    All(Block),
    /// What uses its host IDs. The record, the status and the logs stay.
    Users,
}

/// Removes the pod of this directory, whose name is the pod's UID. The caller holds the pod's lock.
pub(crate) async fn all(shared: &Arc<Shared>, place: &Place, block: Block) -> Result<()> {
    repeated(shared, place, Extent::All(block)).await
}

/// Removes the containers, sandboxes and volumes of a pod that has ended, and releases its host IDs. Its record, status
/// and logs stay. The caller holds the pod's lock.
pub(crate) async fn users_of_ended(shared: &Arc<Shared>, place: &Place) -> Result<()> {
    repeated(shared, place, Extent::Users).await
}

async fn repeated(shared: &Arc<Shared>, place: &Place, extent: Extent) -> Result<()> {
    let uid = place.dir.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let mut tried = 0;
    while let Err(error) = once(shared, &uid, place, extent).await {
        tried += 1;
        let is_refused = matches!(&error, Error::Call(_));
        if tried >= if is_refused { TRIES_OF_RUNTIME } else { TRIES } {
            return Err(error);
        }
        if tried % STUCK == 0 && matches!(&error, Error::Call(cause) if cause.is_failed_precondition()) {
            kill_shims(shared, &uid)
                .await
                .unwrap_or_else(|error| warn!("cannot look for the pod's shim: {error}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// containerd may go on refusing to remove a container whose processes are all killed: its shim has missed their end.
async fn kill_shims(shared: &Arc<Shared>, uid: &str) -> Result<()> {
    for sandbox in shared.cri.sandboxes(uid).await? {
        let id = sandbox.id.clone();
        if blocking("killing a shim", move || Ok(cgroups::kill_shim(&id))).await? > 0 {
            warn!(
                "killed the shim of sandbox {}: containerd calls one of its containers running, which has ended",
                sandbox.id
            );
        }
    }
    Ok(())
}

async fn once(shared: &Arc<Shared>, uid: &str, place: &Place, extent: Extent) -> Result<()> {
    for container in shared.cri.containers(uid).await? {
        shared.cri.remove(&container.id).await?;
    }
    for sandbox in shared.cri.sandboxes(uid).await? {
        shared.cri.stop_sandbox(&sandbox.id).await?;
        shared.cri.remove_sandbox(&sandbox.id).await?;
    }
    if let Some(cgroups) = shared.cgroups.clone() {
        let of_pod = uid.to_owned();
        blocking("removing a pod's cgroup", move || cgroups.remove(&of_pod)).await?;
    }
    let pod = PodUid::new(uid).map_err(|e| Error::config("metadata.uid", e.to_string()))?;
    let holder = Holder::new(uid).map_err(|e| Error::config("metadata.uid", e.to_string()))?;
    let (of_shared, of_holder, of_pod) = (Arc::clone(shared), holder.clone(), pod.clone());
    let of_place = place.clone();
    blocking("releasing a user namespace", move || users(&of_shared, of_holder, &of_pod, &of_place)).await?;
    notices::log(&shared.volumes.tear_down(place, &pod).await?, &place.span());
    let (shared, place) = (Arc::clone(shared), place.clone());
    blocking("removing a pod", move || files_and_ids(&shared, holder, &place, extent)).await
}

/// Whether a lease was taken for the pod at this place: its places are in the pod's directories, or it is the block that
/// pods share. A lease of the same name that was taken by hand is its holder's. A ledger that was rebuilt knows no places:
/// there the mark of this instance tells that the pod is ours.
pub(crate) fn is_pods(lease: &Lease, place: &Place, instance: &InstanceId) -> bool {
    let is_marked = || PodFiles(&place.files).mark().is_some_and(|mark| mark.instance == *instance);
    let is_in = |dir: &Path| {
        let real = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        lease.places.iter().any(|place| place.starts_with(dir) || place.starts_with(&real))
    };
    let is_rebuilt = lease.places.is_empty() && is_marked();
    lease.members.is_some() || is_in(&place.files) || is_in(&place.dir) || is_rebuilt
}

/// Releases the user namespace that a killed process has pinned without a record: it would keep the block in use.
fn users(shared: &Shared, holder: Holder, pod: &PodUid, place: &Place) -> Result<()> {
    match shared.ledger.get(holder)?.filter(|lease| is_pods(lease, place, shared.cri.owned.instance())) {
        Some(lease) => {
            Ok(shared.volumes.of(place)?.local.forget_unrecorded_users(pod, &lease.user_namespace())?)
        }
        None => Ok(()),
    }
}

fn files_and_ids(shared: &Shared, holder: Holder, place: &Place, extent: Extent) -> Result<()> {
    match extent {
        Extent::All(_) => place.remove_logs()?,
        // Before the block is released: no record names a block that may be another pod's.
        Extent::Users => place.forget_users()?,
    }
    // The released block is draining: it is free only when a census has found no use of its IDs.
    let is_pods = |lease: Lease| is_pods(&lease, place, shared.cri.owned.instance());
    if shared.ledger.get(holder.clone())?.is_some_and(is_pods) {
        shared.ledger.release(holder)?;
    }
    if extent != Extent::Users {
        place.remove()?;
    }
    if extent != Extent::All(Block::Released) {
        shared.ledger.settle()?;
    }
    Ok(())
}
