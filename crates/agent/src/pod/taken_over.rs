//! Pods that a kubelet has started, on the agent of its node: found by what the runtime and the root directory have of them.

use std::sync::Arc;

use manifest::k8s_openapi::api::core::v1 as api;
use tracing::{info, warn};
use types::PodUid;

use crate::agent::Agent;
use crate::error::{Error, Result};
use crate::housekeeping::take_over::TakenOver;
use crate::housekeeping::{orphans, take_over};
use crate::pod::lock::Names;
use crate::pod::owners::valid_uid;
use crate::pod::pod_files::PodFiles;
use crate::pod::store::{Parts, Place, PodRecord, Stored, stored_one};
use crate::pod::unrecorded::{SandboxUsers, Unrecorded, newest};
use crate::shared::{Shared, blocking};
use crate::status::view::PodStatus;

/// The namespace and name of a pod.
fn named(pod: &api::Pod) -> (&str, &str) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    (namespace, pod.metadata.name.as_deref().unwrap_or_default())
}

impl Agent {
    /// Enters the blocks of pods that a kubelet has left in the root directory into the ledger, and returns which pods run.
    /// Call it once, before the first update: no pod gets a block that another one has.
    ///
    /// # Errors
    /// If the runtime does not respond, or the records or the ledger cannot be read.
    pub async fn take_over(&self) -> Result<TakenOver> {
        take_over::take_over(&self.shared).await
    }

    /// Ends what a kubelet has left of other pods of this name: a static pod has another UID here than with a kubelet, and a
    /// pod that was deleted and created again is another one. Two of one name must not run at once.
    pub(crate) async fn end_namesakes(&self, pod: &api::Pod) -> Result<()> {
        let (namespace, name) = named(pod);
        let uid = pod.metadata.uid.as_deref();
        for other in self.shared.left.others(namespace, name, uid) {
            info!(
                "pod {namespace}/{name} ({other}), which a kubelet has started, is ended: another one replaces it"
            );
            orphans::collect_one(&self.shared, &other).await?;
            self.shared.left.remove(namespace, name, &other);
        }
        Ok(())
    }

    /// What the runtime has of a pod without a record. Only the pods of a cluster keep their UIDs without one.
    pub(crate) async fn find_unrecorded(&self, pod: &api::Pod) -> Result<Option<Unrecorded>> {
        let uid = pod.metadata.uid.as_deref().and_then(|uid| PodUid::new(uid).ok());
        let (Some(uid), Some(_)) = (uid, &self.shared.root_dir) else { return Ok(None) };
        let (namespace, name) = named(pod);
        let found = Unrecorded::find(&self.shared.cri, &uid, namespace, name).await?;
        if let Some(Unrecorded { users, .. }) = found {
            let (shared, title) = (Arc::clone(&self.shared), format!("{namespace}/{name}"));
            let check = move || check_record(&shared, &title, &uid, users);
            blocking("reading the record of a pod's block", check).await?;
        }
        Ok(found)
    }

    /// Records a pod that is over and that a kubelet has run: its logs stay until it is deleted. `None` if nothing of it is
    /// on this node.
    ///
    /// # Errors
    /// If the runtime does not respond, another process manages the pod, or it cannot be recorded.
    pub async fn record_ended(&self, pod: &api::Pod, status: PodStatus) -> Result<Option<Stored>> {
        if self.shared.root_dir.is_none() {
            return Ok(None);
        }
        let uid = valid_uid(pod.metadata.uid.as_deref().unwrap_or_default())?;
        let sandboxes = self.shared.cri.sandboxes(uid.as_str()).await?;
        let ended = Ended {
            pod: pod.clone(),
            uid,
            status,
            handler: newest(&sandboxes).map(|sandbox| sandbox.runtime_handler.clone()),
        };
        let shared = Arc::clone(&self.shared);
        blocking("recording a pod that is over", move || ended.record(&shared)).await
    }
}

/// A pod that is over.
struct Ended {
    pod: api::Pod,
    uid: PodUid,
    status: PodStatus,
    /// That of its sandbox, if the runtime has one.
    handler: Option<String>,
}

impl Ended {
    fn record(self, shared: &Shared) -> Result<Option<Stored>> {
        let Self { pod, uid, status, handler } = self;
        let (namespace, name) = named(&pod);
        let place = Place::new(&shared.state, &uid, namespace, name)
            .with_logs_in(shared.pod_logs_dir.as_deref())
            .with_files_in(shared.root_dir.as_deref());
        let has_files = || shared.cri.owned.files(&uid).is_some_and(|dir| shared.cri.owned.is_free(&dir));
        if handler.is_none() && !place.logs.is_dir() && !has_files() {
            return Ok(None);
        }
        let _names = Names::lock(&shared.state)?;
        if !place.has_record() {
            let title = || format!("{namespace}/{name}");
            let _lock = place.take()?.ok_or_else(|| Error::Managed { pod: title() })?;
            let record = PodRecord::new(Parts {
                uid: uid.clone(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                hash: 0,
                endpoint: shared.endpoint.clone(),
                handler: handler.unwrap_or_default(),
                pod_logs_dir: shared.pod_logs_dir.clone(),
                root_dir: shared.root_dir.clone(),
                pod: pod.clone(),
            });
            place.write_record(&record)?;
            place.write_status(&status)?;
        }
        stored_one(&shared.state, uid.as_str())
    }
}

/// Fails if the kubelet's record of the pod's block is of another one than its sandbox has.
fn check_record(shared: &Shared, pod: &str, uid: &PodUid, users: SandboxUsers) -> Result<()> {
    let Some(dir) = shared.cri.owned.files(uid) else { return Ok(()) };
    let files = PodFiles(&dir);
    match files.recorded_block() {
        Ok(Some(record)) if !users.are_of(Some(&record)) => Err(Error::Contradiction {
            pod: pod.to_owned(),
            file: files.record(),
            recorded: record.span().to_string(),
            found: users.words(),
        }),
        Ok(_) => Ok(()),
        // What runs is certain; the record is written anew.
        Err(cause) => {
            warn!("pod {pod}: {}: {cause}; its sandbox has {}", files.record().display(), users.words());
            Ok(())
        }
    }
}
