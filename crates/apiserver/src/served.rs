//! The pods of this node, as the kubelet's API serves them.

use std::path::PathBuf;

use agent::{PodStatus, StateView, Stored};
use kubelet_api::{Pods, ServedContainer, ServedPod};
use manifest::Resource;
use manifest::k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};
use tracing::warn;
use types::PodUid;

use crate::pods::{ApiPod, PodsView};

/// The pods of the API server, and those that the agent has recorded without it: static pods.
pub(crate) struct NodePods {
    pub(crate) pods: PodsView,
    /// The agent's state directory.
    pub(crate) state: PathBuf,
}

impl NodePods {
    fn api_pods(&self) -> Vec<std::sync::Arc<ApiPod>> {
        self.pods.current().map(|set| set.pods.clone()).unwrap_or_default()
    }

    /// The agent's record of a pod. A mirror pod is annotated with the UID of its static pod; any user may have written
    /// the annotation.
    fn record_of(&self, pod: &ApiPod) -> Option<Stored> {
        let uid = pod.mirror.as_deref().map_or_else(|| Ok(pod.pod.uid.clone()), PodUid::new).ok()?;
        agent::stored_one(&self.state, uid.as_str()).unwrap_or_else(|error| {
            warn!("the record of pod {}/{} cannot be read: {error}", pod.pod.namespace, pod.pod.name);
            None
        })
    }

    fn stored(&self) -> Vec<Stored> {
        let read = agent::stored(&self.state);
        let (found, wrong) = read.unwrap_or_else(|error| (Vec::new(), vec![error]));
        wrong.iter().for_each(|error| warn!("a record of a pod cannot be read and is not served: {error}"));
        found
    }
}

impl Pods for NodePods {
    fn list(&self) -> Vec<Value> {
        let known = self.api_pods();
        let is_known = |stored: &Stored| known.iter().any(|pod| pod.pod.uid == stored.record.uid);
        let local = self.stored().into_iter().filter(|stored| !is_known(stored)).map(|stored| {
            let phase = stored.status.map(|status| status.phase);
            untyped(json!(stored.record.pod), json!({"phase": phase.unwrap_or_else(|| "Pending".to_owned())}))
        });
        // A mirror pod only shows a static pod.
        let own = known.iter().filter(|pod| pod.mirror.is_none()).map(|pod| shown(pod));
        own.chain(local).collect()
    }

    fn running(&self) -> Vec<Value> {
        self.stored().iter().filter_map(running).collect()
    }

    fn find(&self, namespace: &str, name: &str) -> Option<ServedPod> {
        let is_it = |pod: &ApiPod| pod.pod.namespace == namespace && pod.pod.name == name;
        let known = self.api_pods().into_iter().find(|pod| is_it(pod));
        let is_named = |stored: &Stored| stored.record.namespace == namespace && stored.record.name == name;
        let stored = match &known {
            Some(pod) => self.record_of(pod).filter(is_named),
            None => self.stored().into_iter().find(is_named),
        };
        let spec = known.as_ref().and_then(|pod| pod.object()).and_then(|object| object.pod());
        let spec = spec.map(|pod| pod.spec).or_else(|| stored.as_ref()?.record.pod.spec.as_ref());
        let containers = spec.map(containers).unwrap_or_default();
        let known_uid = known.as_ref().map(|pod| pod.pod.uid.to_string());
        match stored {
            Some(Stored { status, logs, record, .. }) => {
                let uid = record.uid.to_string();
                let mirror_uid = known_uid.filter(|known| *known != uid);
                Some(ServedPod { uid, mirror_uid, containers, statuses: statuses(status), logs })
            }
            None => known_uid.map(|uid| ServedPod { uid, containers, ..ServedPod::default() }),
        }
    }
}

/// A pod with its containers that run, if it has any.
fn running(stored: &Stored) -> Option<Value> {
    let record = &stored.record;
    let all = stored.status.as_ref()?.all_containers();
    let running = all.filter(|container| matches!(container.state, StateView::Running { .. }));
    let shown = |container: &agent::ContainerView| {
        let image = container.instance.as_ref().map(|instance| instance.image.as_str());
        json!({"name": container.name, "image": image.unwrap_or_default(), "resources": {}})
    };
    let containers: Vec<Value> = running.map(shown).collect();
    let metadata = json!({"namespace": record.namespace, "name": record.name, "uid": record.uid.as_str()});
    (!containers.is_empty())
        .then(|| json!({"metadata": metadata, "spec": {"containers": containers}, "status": {}}))
}

fn statuses(status: Option<PodStatus>) -> Vec<agent::ContainerView> {
    let all = |status: PodStatus| {
        status.containers.into_iter().chain(status.init).chain(status.ephemeral).collect()
    };
    status.map(all).unwrap_or_default()
}

fn containers(spec: &PodSpec) -> Vec<ServedContainer> {
    let init = spec.init_containers.iter().flatten();
    let regular = spec.containers.iter().chain(init).map(|container| (&container.name, container.tty));
    let ephemeral =
        spec.ephemeral_containers.iter().flatten().map(|container| (&container.name, container.tty));
    let served =
        |(name, tty): (&String, Option<bool>)| ServedContainer { name: name.clone(), tty: tty == Some(true) };
    regular.chain(ephemeral).map(served).collect()
}

/// A pod of the API server; without its spec if that cannot be read.
fn shown(pod: &ApiPod) -> Value {
    let read = match pod.object().map(|object| &object.resource) {
        Some(Resource::Pod(read)) => json!(read),
        _ => {
            let own = &pod.pod;
            json!({"metadata": {"namespace": own.namespace, "name": own.name, "uid": own.uid.as_str()}})
        }
    };
    untyped(read, pod.status.clone())
}

/// An element of a list: without `apiVersion` and `kind`, and with this status.
fn untyped(mut pod: Value, status: Value) -> Value {
    if let Some(fields) = pod.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
        let status = if status.is_null() { json!({}) } else { status };
        fields.insert("status".to_owned(), status);
    }
    pod
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::watch;

    use super::*;
    use crate::pods::PodSet;
    use crate::raw::RawObject;

    fn api_pod(value: Value) -> Arc<ApiPod> {
        let raw: RawObject = serde_json::from_value(value).unwrap();
        Arc::new(ApiPod::read(&raw).unwrap())
    }

    #[test]
    fn a_pod_of_the_api_is_served_before_it_is_started_and_a_mirror_pod_is_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        let pod = |name: &str, annotations: Value| {
            api_pod(json!({
                "metadata": {"namespace": "shop", "name": name, "uid": format!("u-{name}"), "annotations": annotations},
                "spec": {"containers": [{"name": "a", "image": "i"}], "initContainers": [{"name": "b", "image": "i"}]},
                "status": {"phase": "Pending"},
            }))
        };
        let mirror = json!({"kubernetes.io/config.mirror": "u-static"});
        let set = PodSet { pods: vec![pod("web", json!({})), pod("shown", mirror)], ..PodSet::default() };
        let (_sender, receiver) = watch::channel(Some(Arc::new(set)));
        let pods = NodePods { pods: PodsView(receiver), state: dir.path().to_owned() };
        let list = pods.list();
        assert_eq!(list.len(), 1);
        assert_eq!(
            (&list[0]["metadata"]["name"], &list[0]["status"]["phase"]),
            (&json!("web"), &json!("Pending"))
        );
        assert!(list[0].get("kind").is_none() && list[0]["spec"]["containers"][0]["name"] == "a");
        let found = pods.find("shop", "web").unwrap();
        let names = found.containers.iter().map(|container| container.name.as_str());
        assert_eq!((names.collect(), found.statuses), (vec!["a", "b"], Vec::new()));
        assert_eq!((found.uid.as_str(), found.mirror_uid), ("u-web", None));
        assert_eq!(pods.find("other", "web"), None);
    }

    /// A user who may create pods in one namespace could read the logs of any other.
    #[test]
    fn an_annotation_does_not_lead_to_the_record_of_another_pod() {
        let dir = tempfile::tempdir().unwrap();
        let spec = json!({"containers": [{"name": "a", "image": "i"}]});
        let record = json!({
            "version": 1, "uid": "u-1", "namespace": "shop", "name": "web", "hash": "", "endpoint": "", "handler": "",
            "mode": "own", "uids": [], "gids": [], "process": 1,
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec},
        });
        let place = dir.path().join("pods/u-1");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("agent.json"), record.to_string()).unwrap();
        let pod = |namespace: &str, name: &str, mirror: &str| {
            let annotations = json!({"kubernetes.io/config.mirror": mirror});
            let metadata =
                json!({"namespace": namespace, "name": name, "uid": "u-9", "annotations": annotations});
            api_pod(json!({"metadata": metadata, "spec": spec}))
        };
        let logs = |mirror: Option<&str>, namespace: &str| {
            let pods = mirror.map(|mirror| pod(namespace, "web", mirror)).into_iter().collect();
            let (_sender, receiver) = watch::channel(Some(Arc::new(PodSet { pods, ..PodSet::default() })));
            let pods = NodePods { pods: PodsView(receiver), state: dir.path().to_owned() };
            pods.find(namespace, "web").map(|found| found.logs)
        };
        let own = dir.path().join("logs/shop_web_u-1");
        assert_eq!(logs(None, "shop"), Some(own.clone()));
        assert_eq!(logs(Some("u-1"), "shop"), Some(own));
        for stolen in ["u-1", "../pods/u-1", "..", ""] {
            assert_eq!(logs(Some(stolen), "evil"), Some(PathBuf::new()), "{stolen}");
        }
    }
}
