//! The PodResources API.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use devices::api::v1::pod_resources_lister_client::PodResourcesListerClient;
use devices::api::v1::{
    AllocatableResourcesRequest, ContainerDevices, GetPodResourcesRequest, ListPodResourcesRequest,
};
use devices::api::v1alpha1;
use devices::pod_resources::{NodePod, NodePods, Options, serve};
use tonic::Code;

use crate::node::{GPU, Node, devices, pod};
use crate::support::{FakeDevice, FakePlugin, dial};

struct Pods;

fn shown(name: &str) -> NodePod {
    NodePod {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: format!("u-{name}"),
        sidecars: vec!["side".to_owned()],
        containers: vec!["app".to_owned()],
    }
}

impl NodePods for Pods {
    fn active(&self) -> Vec<NodePod> {
        vec![shown("web")]
    }

    fn all(&self) -> Vec<NodePod> {
        vec![shown("web"), shown("ended")]
    }
}

/// The devices of a container: IDs with the NUMA node of each, if there is one.
fn ids(devices: &[ContainerDevices]) -> Vec<(String, Option<i64>)> {
    let numa = |of: &ContainerDevices| of.topology.as_ref().map(|topology| topology.nodes[0].id);
    let one = |of: &ContainerDevices| {
        assert_eq!((of.resource_name.as_str(), of.device_ids.len()), (GPU, 1));
        (of.device_ids[0].clone(), numa(of))
    };
    devices.iter().map(one).collect()
}

#[tokio::test]
async fn monitoring_agents_see_which_container_has_which_device() {
    let node = Node::start().await;
    let near = FakeDevice { numa: vec![0, 1], ..FakeDevice::new("a", "/dev/null") };
    let mut all = devices(&["b", "c"]);
    all[1].is_healthy = false;
    all.insert(0, near);
    let _serving = node.plugin("fake.sock", FakePlugin::new(all)).await;
    node.has(3, 2).await;
    node.manager.allocate(&pod("u-web", 1)).await.unwrap();

    let socket = node.path().join("resources.sock");
    let turns = AtomicUsize::new(0);
    let options = Options {
        devices: node.manager.clone(),
        pods: Arc::new(Pods),
        limiter: Arc::new(move || turns.fetch_add(1, Ordering::Relaxed) < 5),
    };
    let _tasks = serve(&socket, options).await.unwrap();
    let mut client = PodResourcesListerClient::new(dial(&socket).await.unwrap());
    let listed = client.list(ListPodResourcesRequest {}).await.unwrap().into_inner().pod_resources;
    assert_eq!(listed.len(), 1);
    let names: Vec<&str> = listed[0].containers.iter().map(|container| container.name.as_str()).collect();
    assert_eq!((listed[0].name.as_str(), names), ("web", vec!["side", "app"]));
    let held = [("a".to_owned(), Some(0)), ("a".to_owned(), Some(1))];
    assert_eq!(ids(&listed[0].containers[1].devices), held);
    assert!(listed[0].containers[0].devices.is_empty());

    let all = client.get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap().into_inner();
    assert_eq!(ids(&all.devices), [&held[..], &[("b".to_owned(), None)]].concat());
    assert!(all.cpu_ids.is_empty() && all.memory.is_empty());

    let of =
        |name: &str| GetPodResourcesRequest { pod_name: name.to_owned(), pod_namespace: "shop".to_owned() };
    let web = client.get(of("web")).await.unwrap().into_inner().pod_resources.unwrap();
    assert_eq!(web, listed[0]);
    let status = client.get(of("ended")).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unknown, "pod ended in namespace shop not found"));

    let channel = dial(&socket).await.unwrap();
    let mut first = v1alpha1::pod_resources_lister_client::PodResourcesListerClient::new(channel);
    let listed = first.list(v1alpha1::ListPodResourcesRequest {}).await.unwrap().into_inner().pod_resources;
    assert_eq!((listed.len(), listed[0].containers.len()), (2, 1));
    assert_eq!(listed[0].containers[0].devices.len(), 2);

    let limited = client.list(ListPodResourcesRequest {}).await.unwrap_err();
    assert_eq!((limited.code(), limited.message()), (Code::ResourceExhausted, "rejected by rate limit"));
    let text = node.metrics.text();
    for line in [
        "kubelet_pod_resources_endpoint_requests_total{server_api_version=\"v1\"} 4\n",
        "kubelet_pod_resources_endpoint_requests_total{server_api_version=\"v1alpha1\"} 1\n",
        "kubelet_pod_resources_endpoint_requests_list{server_api_version=\"v1\"} 1\n",
        "kubelet_pod_resources_endpoint_errors_get{server_api_version=\"v1\"} 1\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}
