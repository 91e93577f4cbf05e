//! The device plugins of this node, and the PodResources API.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ::devices::plugin_watcher::{self, DEVICE_PLUGIN, Handlers, registry_of};
use ::devices::pod_resources::{self, BURST, NodePod, NodePods, REQUESTS_PER_SECOND};
use ::devices::{DeviceManager, Error, RegistrationServer};
use agent::{Bucket, PodStatus};
use manifest::Resource;
use manifest::k8s_openapi::api::core::v1::{Pod, PodSpec};
use telemetry::metrics::Registry;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::warn;

use crate::pods::{ApiPod, PodsView};

/// Directories of the kubelet's root directory.
const DEVICE_PLUGINS: &str = "device-plugins";
const POD_RESOURCES: &str = "pod-resources";

/// The device plugins of a node.
pub(crate) struct NodeDevices {
    pub(crate) manager: DeviceManager,
    /// The kubelet's root directory.
    root: PathBuf,
}

/// Registration of plugins and the PodResources API while they are served. They end when this value is dropped.
pub(crate) struct DeviceServers {
    _registration: RegistrationServer,
    _pod_resources: JoinSet<()>,
    _watcher: JoinSet<()>,
}

impl NodeDevices {
    /// Reads which container has which device.
    ///
    /// # Errors
    /// If the record of that is damaged, or the registry has the metrics already.
    pub(crate) fn open(root: &Path, metrics: &Registry) -> Result<Self, Error> {
        let manager = DeviceManager::open(&root.join(DEVICE_PLUGINS), metrics)?;
        Ok(Self { manager, root: root.to_owned() })
    }

    /// Lets plugins register, and serves the PodResources API.
    ///
    /// # Errors
    /// If a socket cannot be made, or another process serves there.
    pub(crate) async fn serve(&self, pods: ServedPods) -> Result<DeviceServers, Error> {
        let registration = self.manager.serve().await?;
        let bucket = Mutex::new(Bucket::per_second(REQUESTS_PER_SECOND, BURST));
        let limiter = move || {
            let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.as_mut().is_none_or(|bucket| bucket.take(Instant::now()))
        };
        let options = pod_resources::Options {
            devices: self.manager.clone(),
            pods: Arc::new(pods),
            limiter: Arc::new(limiter),
        };
        let socket = self.root.join(POD_RESOURCES).join(pod_resources::SOCKET);
        let pod_resources = pod_resources::serve(&socket, options).await?;
        let handlers = Handlers::from([(DEVICE_PLUGIN, Arc::new(self.manager.clone()) as _)]);
        let mut watcher = JoinSet::new();
        watcher.spawn(plugin_watcher::watch(registry_of(&self.root), handlers));
        Ok(DeviceServers { _registration: registration, _pod_resources: pod_resources, _watcher: watcher })
    }
}

/// The pods of this node, as the PodResources API shows them: those of the API server, and static pods.
pub(crate) struct ServedPods {
    /// `None` for a node that only has static pods.
    pub(crate) api: Option<PodsView>,
    /// The agent's state directory.
    pub(crate) state: PathBuf,
}

impl ServedPods {
    fn listed(&self, is_shown: impl Fn(Phase) -> bool) -> Vec<NodePod> {
        let set = self.api.as_ref().and_then(PodsView::current);
        let of_api: Vec<&Arc<ApiPod>> =
            set.iter().flat_map(|set| &set.pods).filter(|pod| pod.mirror.is_none()).collect();
        let (stored, wrong) = agent::stored(&self.state).unwrap_or_else(|error| (Vec::new(), vec![error]));
        wrong.iter().for_each(|error| warn!("a record of a pod cannot be read and is not served: {error}"));
        let is_known = |uid: &str| of_api.iter().any(|pod| pod.pod.uid.as_str() == uid);
        let own = stored.iter().filter(|stored| !is_known(stored.record.uid.as_str())).filter_map(|stored| {
            let is_over = stored.status.as_ref().is_some_and(PodStatus::is_terminated);
            let uid = stored.record.uid.as_str();
            is_shown(Phase { is_over }).then(|| shown(uid, &stored.record.pod))
        });
        let known = of_api.iter().filter(|pod| is_shown(Phase { is_over: pod.is_terminal() }));
        let known = known.filter_map(|pod| match pod.object().map(|object| &object.resource) {
            Some(Resource::Pod(read)) => Some(shown(pod.pod.uid.as_str(), read)),
            _ => None,
        });
        known.chain(own).collect()
    }
}

/// How far a pod is.
struct Phase {
    is_over: bool,
}

impl NodePods for ServedPods {
    fn active(&self) -> Vec<NodePod> {
        self.listed(|phase| !phase.is_over)
    }

    fn all(&self) -> Vec<NodePod> {
        self.listed(|_| true)
    }
}

fn shown(uid: &str, pod: &Pod) -> NodePod {
    let default = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&default);
    let init = spec.init_containers.iter().flatten();
    let sidecars = init.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    NodePod {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: uid.to_owned(),
        sidecars: sidecars.map(|container| container.name.clone()).collect(),
        containers: spec.containers.iter().map(|container| container.name.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::sync::watch;

    use super::*;
    use crate::pods::PodSet;
    use crate::raw::RawObject;

    #[test]
    fn pods_of_the_api_are_shown_with_their_sidecars_until_they_have_ended() {
        let pod = |name: &str, phase: &str, annotations: Value| {
            let raw: RawObject = serde_json::from_value(json!({
                "metadata": {"namespace": "shop", "name": name, "uid": format!("u-{name}"), "annotations": annotations},
                "spec": {"containers": [{"name": "a", "image": "i"}], "initContainers": [{"name": "b", "image": "i"},
                    {"name": "c", "image": "i", "restartPolicy": "Always"}]},
                "status": {"phase": phase},
            }))
            .unwrap();
            Arc::new(ApiPod::read(&raw).unwrap())
        };
        let mirror = json!({"kubernetes.io/config.mirror": "u-static"});
        let pods = vec![
            pod("web", "Running", json!({})),
            pod("ended", "Succeeded", json!({})),
            pod("shown", "Running", mirror),
        ];
        let (_sender, receiver) = watch::channel(Some(Arc::new(PodSet { pods, ..PodSet::default() })));
        let dir = tempfile::tempdir().unwrap();
        let served = ServedPods { api: Some(PodsView(receiver)), state: dir.path().to_owned() };
        let active = served.active();
        let web = NodePod {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "u-web".to_owned(),
            sidecars: vec!["c".to_owned()],
            containers: vec!["a".to_owned()],
        };
        assert_eq!(active, [web]);
        assert_eq!(served.all().len(), 2);
        let alone = ServedPods { api: None, state: dir.path().to_owned() };
        assert!(alone.all().is_empty());
    }
}
