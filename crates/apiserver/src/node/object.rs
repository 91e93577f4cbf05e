//! The Node object: as it is created, and as it should be now.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeDaemonEndpoints, NodeFeatures, NodeRuntimeHandler,
    NodeRuntimeHandlerFeatures, NodeSpec, NodeStatus, NodeSwapStatus, NodeSystemInfo, Taint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use types::is_extended_resource;

use super::conditions::Before;
use super::facts::{MachineFacts, NodeState, RuntimeFacts};
use super::resources::Resources;
use super::settings::NodeSettings;
use super::{images, labels};

/// Leaves attaching and detaching of volumes to the controller.
const CONTROLLER_ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// The node's addresses, for a cloud controller manager.
const PROVIDED_IP: &str = "alpha.kubernetes.io/provided-node-ip";
/// Removed by a cloud controller manager that has completed the Node.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The Node to create.
#[must_use]
pub fn new_node(settings: &NodeSettings, state: &NodeState, now: Timestamp) -> Node {
    let mut taints = settings.taints.clone();
    if settings.external_cloud_provider {
        taints.push(Taint {
            key: UNINITIALIZED.to_owned(),
            value: Some("true".to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        });
    }
    let empty = Node {
        metadata: ObjectMeta {
            name: Some(settings.name.clone()),
            labels: Some(labels::initial(settings, &state.facts.machine.architecture)),
            annotations: Some(BTreeMap::from([(CONTROLLER_ATTACH.to_owned(), "true".to_owned())])),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: settings.provider_id.clone(),
            taints: Some(taints).filter(|taints| !taints.is_empty()),
            ..NodeSpec::default()
        }),
        status: None,
    };
    updated_node(&empty, settings, state, now)
}

/// A Node that existed before, with what is reconciled once: an annotation, and the labels that a node owns. Other
/// labels and all taints stay as they are. Extended resources are none where no device plugin was ever on this machine.
#[must_use]
pub fn adopted_node(seen: &Node, settings: &NodeSettings, state: &NodeState) -> Node {
    let mut node = seen.clone();
    let ours = labels::initial(settings, &state.facts.machine.architecture);
    let reconciled = labels::reconciled(&ours).map(|(key, value)| (key.clone(), value.clone()));
    node.metadata.labels.get_or_insert_default().extend(reconciled);
    node.metadata.annotations.get_or_insert_default().insert(CONTROLLER_ATTACH.to_owned(), "true".to_owned());
    if let Some(status) = node.status.as_mut().filter(|_| state.facts.devices.is_new) {
        // The machine has taken the place of another one of this name.
        let amounts = status.capacity.iter_mut().chain(&mut status.allocatable).flatten();
        let extended = amounts.filter(|(name, _)| is_extended_resource(name));
        extended.for_each(|(_, amount)| amount.0 = "0".to_owned());
    }
    node
}

/// The Node with the status that it should have now. What others write into it is kept: conditions of other types,
/// extended resources, attached volumes.
#[must_use]
pub fn updated_node(seen: &Node, settings: &NodeSettings, state: &NodeState, now: Timestamp) -> Node {
    // Times in the API have no fractions.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let old = seen.status.clone().unwrap_or_default();
    let facts = &state.facts;
    let resources = Resources::compute(settings, &facts.machine, old.capacity.as_ref());
    let resources = resources.with_devices(&facts.devices.counts);
    let seen_conditions = old.conditions.unwrap_or_default();
    let before = Before { now, seen: &seen_conditions };
    let ours = state.conditions.compute(&resources.missing(), &before);
    let foreign = seen_conditions.iter().filter(|c| ours.iter().all(|own| own.type_ != c.type_));
    let conditions = foreign.cloned().chain(ours.iter().cloned()).collect();
    let runtime = facts.runtime.as_ref();
    let status = NodeStatus {
        addresses: addresses(settings, &facts.addresses, old.addresses),
        allocatable: Some(resources.allocatable),
        capacity: Some(resources.capacity),
        conditions: Some(conditions),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(settings.port) }),
        }),
        declared_features: some(sorted(&settings.declared_features)),
        features: runtime.map(|runtime| NodeFeatures {
            supplemental_groups_policy: Some(runtime.supplemental_groups_policy),
        }),
        images: some(images::listed(&facts.images, settings.max_images)),
        node_info: Some(node_info(settings, &facts.machine, runtime)),
        runtime_handlers: some(runtime.map(handlers).unwrap_or_default()),
        volumes_in_use: match &facts.volumes_in_use {
            Some(volumes) => some(sorted(volumes)),
            None => old.volumes_in_use,
        },
        volumes_attached: old.volumes_attached,
        config: old.config,
        phase: old.phase,
    };
    let mut node = Node { status: Some(status), ..seen.clone() };
    if settings.external_cloud_provider {
        let annotations = node.metadata.annotations.get_or_insert_default();
        let given: Vec<String> = settings.node_ips.iter().map(IpAddr::to_string).collect();
        if given.is_empty() {
            annotations.remove(PROVIDED_IP);
        } else {
            annotations.insert(PROVIDED_IP.to_owned(), given.join(","));
        }
    }
    node
}

/// Internal addresses, then the host name. A cloud controller manager that has set addresses keeps them.
fn addresses(
    settings: &NodeSettings,
    found: &[IpAddr],
    seen: Option<Vec<NodeAddress>>,
) -> Option<Vec<NodeAddress>> {
    if settings.external_cloud_provider && seen.as_ref().is_some_and(|seen| !seen.is_empty()) {
        return seen;
    }
    let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    let internal = if settings.external_cloud_provider { &settings.node_ips } else { found };
    let mut all: Vec<NodeAddress> = internal.iter().map(|ip| address("InternalIP", ip.to_string())).collect();
    all.push(address("Hostname", settings.name.clone()));
    Some(all)
}

fn node_info(
    settings: &NodeSettings,
    machine: &MachineFacts,
    runtime: Option<&RuntimeFacts>,
) -> NodeSystemInfo {
    let version = |runtime: &RuntimeFacts| format!("{}://{}", runtime.name, runtime.version);
    NodeSystemInfo {
        architecture: machine.architecture.clone(),
        boot_id: machine.boot_id.clone(),
        container_runtime_version: runtime.map_or_else(|| "Unknown".to_owned(), version),
        kernel_version: machine.kernel_version.clone(),
        kube_proxy_version: String::new(),
        kubelet_version: settings.kubelet_version.clone(),
        machine_id: machine.machine_id.clone(),
        operating_system: "linux".to_owned(),
        os_image: machine.os_image.clone(),
        running_in_user_namespace: Some(machine.in_user_namespace),
        swap: (machine.swap > 0)
            .then(|| NodeSwapStatus { capacity: Some(i64::try_from(machine.swap).unwrap_or(i64::MAX)) }),
        system_uuid: machine.system_uuid.clone(),
    }
}

fn handlers(runtime: &RuntimeFacts) -> Vec<NodeRuntimeHandler> {
    let mut sorted: Vec<_> = runtime.handlers.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let handler = |handler: &super::RuntimeHandler| NodeRuntimeHandler {
        name: Some(handler.name.clone()),
        features: Some(NodeRuntimeHandlerFeatures {
            recursive_read_only_mounts: Some(handler.recursive_read_only_mounts),
            user_namespaces: Some(handler.user_namespaces),
        }),
    };
    sorted.into_iter().map(handler).collect()
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names.dedup();
    names
}

/// The API server drops empty lists: `Some` of one would look like a change.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}
