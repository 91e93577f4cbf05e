//! Mirror pods: the API's view of static pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client};
use manifest::Resource;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tracing::{info, warn};

use crate::pods::{ApiPod, MIRROR, PodSet, PodsView};
use crate::raw::{RawObject, cause, code, core, is_path_segment};

/// The pause before a request that failed is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// How long a request may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// The mirror pods that there should be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MirrorTarget {
    /// The static pods of the files; each has a mirror pod.
    pub pods: Vec<Arc<ApiPod>>,
    /// Namespace and name of static pods that are being stopped: their mirror pods stay.
    pub stopping: BTreeSet<(String, String)>,
}

/// Creates and deletes mirror pods. The task ends when this value is dropped.
pub struct Mirrors {
    target: watch::Sender<Option<MirrorTarget>>,
    task: AbortHandle,
}

impl Mirrors {
    /// Starts to keep the mirror pods of this node. Nothing is done before the first target, the first complete set of the
    /// API's pods, and the Node are known. Must be called within a tokio runtime.
    #[must_use]
    pub fn start(client: Client, pods: PodsView, node: watch::Receiver<Option<Arc<Node>>>) -> Self {
        let (target, targets) = watch::channel(None);
        let task = tokio::spawn(Keeper { client, pods, node, targets }.run()).abort_handle();
        Self { target, task }
    }

    /// Sets which mirror pods there should be.
    pub fn set(&self, target: MirrorTarget) {
        self.target.send_if_modified(|known| {
            let is_new = known.as_ref() != Some(&target);
            *known = Some(target);
            is_new
        });
    }
}

impl Drop for Mirrors {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Keeper {
    client: Client,
    pods: PodsView,
    node: watch::Receiver<Option<Arc<Node>>>,
    targets: watch::Receiver<Option<MirrorTarget>>,
}

/// A step towards the target.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Delete(Arc<ApiPod>),
    Create(Arc<ApiPod>),
}

impl Keeper {
    async fn run(mut self) {
        let mut failure: Option<String> = None;
        loop {
            let retry = failure.is_some();
            tokio::select! {
                changed = self.targets.changed() => if changed.is_err() { return },
                () = self.pods.changed() => {}
                changed = self.node.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(RETRY), if retry => {}
            }
            let (target, node) = (self.targets.borrow().clone(), self.node.borrow().clone());
            let (Some(target), Some(set), Some(node)) = (target, self.pods.current(), node) else { continue };
            if node.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let mut failed = None;
            for step in steps(&target, &set) {
                // One that cannot be created, as for want of its namespace, holds up no other.
                if let Err(text) = self.take(&step, &node).await {
                    failed.get_or_insert(text);
                }
            }
            if let Some(text) = failed.as_ref().filter(|text| failure.as_ref() != Some(text)) {
                warn!("{text}; it is tried again");
            }
            failure = failed;
        }
    }

    async fn take(&self, step: &Step, node: &Node) -> Result<(), String> {
        let (Step::Delete(pod) | Step::Create(pod)) = step;
        let (namespace, name) = (&pod.pod.namespace, &pod.pod.name);
        if !is_path_segment(namespace) || !is_path_segment(name) {
            // The pod was refused for its name; the name would make another path of the request.
            return Ok(());
        }
        let api: Api<RawObject> = Api::namespaced_with(self.client.clone(), namespace, &core("Pod", "pods"));
        match step {
            Step::Delete(_) => {
                let uid = Some(pod.pod.uid.as_str().to_owned());
                let params = DeleteParams {
                    grace_period_seconds: Some(0),
                    preconditions: Some(Preconditions { uid, resource_version: None }),
                    ..DeleteParams::default()
                };
                let failed = |why| format!("mirror pod {namespace}/{name} cannot be deleted: {why}");
                // Deleted already, or another pod of this name.
                asked(api.delete(name, &params), &[404, 409]).await.map_err(failed)?;
                info!("mirror pod {namespace}/{name} is deleted");
            }
            Step::Create(_) => {
                let Some(body) = body(pod, node, Timestamp::now()) else { return Ok(()) };
                let failed = |why| format!("mirror pod {namespace}/{name} cannot be created: {why}");
                let bytes = serde_json::to_vec(&body).map_err(|cause| failed(cause.to_string()))?;
                let request = kube::core::Request::new(api.resource_url());
                let request =
                    request.create(&PostParams::default(), bytes).map_err(|e| failed(e.to_string()))?;
                // Created already; the watch shows whether it is the same.
                let answer =
                    asked(self.client.request::<RawObject>(request), &[409]).await.map_err(failed)?;
                if answer.is_some() {
                    info!("mirror pod {namespace}/{name} is created");
                }
            }
        }
        Ok(())
    }
}

/// The steps from the API's pods to the target.
fn steps(target: &MirrorTarget, set: &PodSet) -> Vec<Step> {
    let mut steps = Vec::new();
    let key = |pod: &ApiPod| (pod.pod.namespace.clone(), pod.pod.name.clone());
    for pod in &target.pods {
        match set.pods.iter().find(|shown| key(shown) == key(pod)) {
            None => steps.push(Step::Create(Arc::clone(pod))),
            Some(shown) if shown.mirror.is_none() => {}
            Some(shown)
                if shown.mirror.as_deref() == Some(pod.pod.uid.as_str()) && shown.deletion.is_none() => {}
            Some(shown) => steps.extend([Step::Delete(Arc::clone(shown)), Step::Create(Arc::clone(pod))]),
        }
    }
    let is_wanted = |shown: &ApiPod| {
        target.stopping.contains(&key(shown)) || target.pods.iter().any(|pod| key(pod) == key(shown))
    };
    let gone = set.pods.iter().filter(|shown| shown.mirror.is_some() && !is_wanted(shown));
    steps.extend(gone.cloned().map(Step::Delete));
    steps
}

/// The mirror pod of a static pod. `None` if the static pod cannot be read.
fn body(pod: &ApiPod, node: &Node, now: Timestamp) -> Option<Value> {
    let Resource::Pod(definition) = &pod.object()?.resource else { return None };
    let mut body = serde_json::to_value(definition).ok()?;
    body.as_object_mut()?.remove("status");
    let metadata = body.get_mut("metadata")?.as_object_mut()?;
    metadata.remove("uid");
    let owner = json!({
        "apiVersion": "v1", "kind": "Node", "controller": true,
        "name": node.metadata.name, "uid": node.metadata.uid,
    });
    metadata.insert("ownerReferences".to_owned(), json!([owner]));
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({})).as_object_mut()?;
    annotations.insert(MIRROR.to_owned(), json!(pod.pod.uid.as_str()));
    annotations.insert("kubernetes.io/config.seen".to_owned(), json!(now.to_string()));
    Some(body)
}

/// The answer of the server; `None` for a status code that counts as success.
async fn asked<T>(request: impl Future<Output = kube::Result<T>>, fine: &[u16]) -> Result<Option<T>, String> {
    match tokio::time::timeout(DEADLINE, request).await {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(error)) if code(&error).is_some_and(|code| fine.contains(&code)) => Ok(None),
        Ok(Err(error)) => Err(cause(&error)),
        Err(_) => Err(format!("no answer within {} s", DEADLINE.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, uid: &str, mirror: Option<&str>) -> Arc<ApiPod> {
        let annotations = mirror.map(|hash| json!({MIRROR: hash}));
        let raw = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "uid": uid, "annotations": annotations},
            "spec": {"nodeName": "n", "containers": [{"name": "a", "image": "i"}]},
        }));
        let read = ApiPod::read(&raw.unwrap()).unwrap();
        Arc::new(ApiPod { is_static: mirror.is_none(), ..read })
    }

    #[test]
    fn each_static_pod_has_one_mirror_pod_of_the_same_hash() {
        let web = pod("web-n", "hash-2", None);
        let target = |stopping: &[&str]| MirrorTarget {
            pods: vec![Arc::clone(&web)],
            stopping: stopping.iter().map(|name| ("default".to_owned(), (*name).to_owned())).collect(),
        };
        let of = |pods: &[&Arc<ApiPod>], stopping: &[&str]| {
            steps(
                &target(stopping),
                &PodSet { pods: pods.iter().copied().cloned().collect(), ..PodSet::default() },
            )
        };
        assert_eq!(of(&[], &[]), [Step::Create(Arc::clone(&web))]);
        assert_eq!(of(&[&pod("web-n", "u-1", Some("hash-2"))], &[]), []);
        let old = pod("web-n", "u-0", Some("hash-1"));
        assert_eq!(of(&[&old], &[]), [Step::Delete(Arc::clone(&old)), Step::Create(Arc::clone(&web))]);
        // A pod of the API with the name of a static pod is not ours to delete.
        assert_eq!(of(&[&pod("web-n", "u-2", None)], &[]), []);
        let (mirror, gone) = (pod("web-n", "u-1", Some("hash-2")), pod("gone-n", "u-3", Some("hash-3")));
        assert_eq!(of(&[&mirror, &gone], &[]), [Step::Delete(Arc::clone(&gone))]);
        assert_eq!(of(&[&mirror, &gone], &["gone-n"]), []);
    }

    #[test]
    fn a_mirror_pod_names_its_node_and_its_hash() {
        let node = json!({"metadata": {"name": "n", "uid": "node-uid"}});
        let node: Node = serde_json::from_value(node).unwrap();
        let body = body(&pod("web-n", "hash-2", None), &node, Timestamp::UNIX_EPOCH).unwrap();
        let metadata = &body["metadata"];
        assert_eq!(metadata["annotations"][MIRROR], "hash-2");
        assert_eq!(metadata["ownerReferences"][0]["uid"], "node-uid");
        assert_eq!(metadata.get("uid"), None);
        assert_eq!(body["spec"]["nodeName"], "n");
    }
}
