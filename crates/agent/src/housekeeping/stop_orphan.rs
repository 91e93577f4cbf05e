//! The end of a pod whose definition is lost: by what the annotations of its containers say.

use std::sync::Arc;
use std::time::Duration;

use lifecycle::HookKind;
use tokio::task::JoinSet;
use tokio::time::Instant;
use types::PodUid;
use types::keys::CONTAINER_NAME;

use crate::cri::marks::StopData;
use crate::error::{Error, Result};
use crate::probe::Asked;
use crate::shared::Shared;

/// How long a container may take to end after SIGTERM if its annotations do not say that.
const GRACE: Duration = Duration::from_secs(2);
/// What a container always has between SIGTERM and SIGKILL, however long its hook took, as with a kubelet.
const LEAST: Duration = Duration::from_secs(2);

/// Stops the containers of a pod that run, all at once, each with its preStop hook and its grace period.
pub(crate) async fn stop(shared: &Arc<Shared>, uid: &PodUid) -> Result<()> {
    let address = address(shared, uid).await?;
    let mut stopping = JoinSet::new();
    for container in shared.cri.containers(uid.as_str()).await? {
        if container.state() == cri::ContainerState::ContainerRunning {
            stopping.spawn(stop_one(Arc::clone(shared), container, address.clone()));
        }
    }
    let mut outcome = Ok(());
    while let Some(stopped) = stopping.join_next().await {
        let stopped = stopped.unwrap_or(Err(Error::BrokeOff { what: "stopping a container" }));
        outcome = outcome.and(stopped);
    }
    outcome
}

async fn stop_one(shared: Arc<Shared>, container: cri::Container, address: String) -> Result<()> {
    let name = container.labels.get(CONTAINER_NAME).map(String::as_str).unwrap_or_default();
    let data = StopData::read(name, &container.annotations);
    let grace = data.grace.unwrap_or(GRACE);
    let begun = Instant::now();
    if data.container.lifecycle.is_some() && !grace.is_zero() {
        let asked =
            Asked { cri: &shared.cri, id: &container.id, container: &data.container, address: &address };
        // A hook that fails keeps no container from being stopped.
        asked.hook(HookKind::PreStop, Some(grace)).await;
    }
    let rest = grace.saturating_sub(begun.elapsed()).max(LEAST.min(grace));
    shared.cri.stop(&container.id, rest).await
}

/// The address of the pod; the node's if it has none of its own.
async fn address(shared: &Shared, uid: &PodUid) -> Result<String> {
    for sandbox in shared.cri.sandboxes(uid.as_str()).await? {
        let status = shared.cri.sandbox_status(&sandbox.id).await?;
        let address = status.and_then(|status| status.network).map(|network| network.ip);
        if let Some(address) = address.filter(|address| !address.is_empty()) {
            return Ok(address);
        }
    }
    Ok(shared.host_ip.clone())
}
