//! Removal of a pod: its containers, sandboxes, volumes, logs, host IDs and record. Each step can be
//! repeated.

use std::sync::Arc;
use std::time::Duration;

use ledger::Holder;
use types::PodUid;

use crate::error::{Error, Result};
use crate::pod::notices;
use crate::pod::store::Place;
use crate::shared::{Shared, blocking};

/// How often the removal is tried, because something may still be in use, and the pause in between.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// Removes the pod of this directory, whose name is the pod's UID.
pub(crate) async fn all(shared: &Arc<Shared>, place: &Place) -> Result<()> {
    let uid = place.dir.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let mut tried = 0;
    while let Err(error) = once(shared, &uid, place).await {
        tried += 1;
        if tried == TRIES {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn once(shared: &Arc<Shared>, uid: &str, place: &Place) -> Result<()> {
    for container in shared.cri.containers(uid).await? {
        shared.cri.remove(&container.id).await?;
    }
    for sandbox in shared.cri.sandboxes(uid).await? {
        shared.cri.stop_sandbox(&sandbox.id).await?;
        shared.cri.remove_sandbox(&sandbox.id).await?;
    }
    let pod = PodUid::new(uid).map_err(|e| Error::config("metadata.uid", e.to_string()))?;
    notices::log(&shared.volumes.tear_down(&pod).await?, &place.span());
    let (shared, place, uid) = (Arc::clone(shared), place.clone(), uid.to_owned());
    blocking("removing a pod", move || files_and_ids(&shared, &uid, &place)).await
}

fn files_and_ids(shared: &Shared, uid: &str, place: &Place) -> Result<()> {
    let wrong = |cause: String| Error::config("metadata.uid", cause);
    place.remove_logs()?;
    // The released block is draining: it is free only when a census has found no use of its IDs.
    shared.ledger.release(Holder::new(uid).map_err(|e| wrong(e.to_string()))?)?;
    place.remove()?;
    shared.ledger.settle()?;
    Ok(())
}
