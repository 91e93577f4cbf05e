//! Our client against containerd, old and new.

use cri::client::Client;
use cri::{
    CgroupDriver, IdMapping, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, ListImagesRequest,
    ListPodSandboxRequest, NamespaceMode, NamespaceOption, PodSandboxConfig, PodSandboxMetadata,
    PodSandboxStatusRequest, RemovePodSandboxRequest, RunPodSandboxRequest, RuntimeConfigRequest,
    StatusRequest, StopPodSandboxRequest, UserNamespace, VersionRequest,
};
use cri::{Code, Endpoint};
use testbed::{Containerd, Options, Part, Parts, Testbed};

fn containerd(which: Containerd) -> Testbed {
    let options = Options { containerd: which, ..Options::from(Parts::of(&[Part::Containerd])) };
    Testbed::start(options).expect("containerd")
}

async fn client(testbed: &Testbed) -> Client {
    Client::connect(&Endpoint::try_from(testbed.containerd_socket()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn the_new_containerd_is_asked_what_it_is_and_what_its_handlers_can_do() {
    let testbed = containerd(Containerd::Pinned);
    let client = client(&testbed).await;
    let version = client.runtime().version(VersionRequest::default()).await.unwrap().into_inner();
    assert_eq!((version.runtime_name.as_str(), version.runtime_api_version.as_str()), ("containerd", "v1"));

    let status = client.runtime().status(StatusRequest { verbose: true }).await.unwrap().into_inner();
    let ready =
        |kind: &str| status.status.iter().flat_map(|s| &s.conditions).any(|c| c.r#type == kind && c.status);
    assert!(ready("RuntimeReady"), "{:?}", status.status);
    assert!(status.info["config"].contains("\"snapshotter\""));
    let names: Vec<&str> = status.runtime_handlers.iter().map(|handler| handler.name.as_str()).collect();
    assert!(names.contains(&"") && names.contains(&"runc"), "{names:?}");
    assert!(status.runtime_handlers.iter().all(|h| h.features.as_ref().unwrap().user_namespaces));
    assert!(status.features.unwrap().supplemental_groups_policy);

    let config = client.runtime().runtime_config(RuntimeConfigRequest {}).await.unwrap().into_inner();
    assert_eq!(config.linux.unwrap().cgroup_driver(), CgroupDriver::Cgroupfs);
    let images = client.images().list_images(ListImagesRequest::default()).await.unwrap().into_inner().images;
    assert!(
        images.iter().any(|image| image.repo_tags.iter().any(|tag| tag.contains("busybox"))),
        "{images:?}"
    );
}

fn sandbox(userns: UserNamespace) -> PodSandboxConfig {
    let metadata = PodSandboxMetadata {
        name: "wired".into(),
        uid: "00000000-0000-0000-0000-00000000c41a".into(),
        namespace: "default".into(),
        attempt: 3,
    };
    // The host's network needs no network plugin.
    let options = NamespaceOption {
        network: NamespaceMode::Node.into(),
        userns_options: Some(userns),
        ..Default::default()
    };
    let context = LinuxSandboxSecurityContext { namespace_options: Some(options), ..Default::default() };
    let linux = LinuxPodSandboxConfig { security_context: Some(context), ..Default::default() };
    PodSandboxConfig {
        metadata: Some(metadata),
        labels: [("app".to_owned(), "wired".to_owned())].into(),
        linux: Some(linux),
        ..Default::default()
    }
}

#[tokio::test]
async fn what_containerd_says_of_a_sandbox_is_what_it_was_asked_for() {
    let testbed = containerd(Containerd::Pinned);
    let mut runtime = client(&testbed).await.runtime();
    let ids = vec![IdMapping { host_id: 2_000_027_648, container_id: 0, length: 65_536 }];
    let asked = UserNamespace { mode: NamespaceMode::Pod.into(), uids: ids.clone(), gids: ids };
    let request = RunPodSandboxRequest { config: Some(sandbox(asked.clone())), ..Default::default() };
    let id = runtime.run_pod_sandbox(request).await.expect("a sandbox").into_inner().pod_sandbox_id;

    let request = PodSandboxStatusRequest { pod_sandbox_id: id.clone(), verbose: false };
    let status = runtime.pod_sandbox_status(request).await.unwrap().into_inner().status.unwrap();
    let metadata = status.metadata.unwrap();
    assert_eq!((metadata.name.as_str(), metadata.attempt), ("wired", 3));
    assert_eq!(status.labels["app"], "wired");
    let found = status.linux.unwrap().namespaces.unwrap().options.unwrap();
    assert_eq!((found.network(), found.userns_options), (NamespaceMode::Node, Some(asked)));
    let list = runtime.list_pod_sandbox(ListPodSandboxRequest::default()).await.unwrap().into_inner().items;
    assert_eq!(list.iter().map(|sandbox| &sandbox.id).collect::<Vec<_>>(), [&id]);

    runtime.stop_pod_sandbox(StopPodSandboxRequest { pod_sandbox_id: id.clone() }).await.unwrap();
    runtime.remove_pod_sandbox(RemovePodSandboxRequest { pod_sandbox_id: id }).await.unwrap();

    let half = UserNamespace { mode: NamespaceMode::Pod.into(), ..Default::default() };
    let request = RunPodSandboxRequest { config: Some(sandbox(half)), ..Default::default() };
    let refused = runtime.run_pod_sandbox(request).await.unwrap_err();
    assert!(refused.message().contains("without UID and GID mappings"), "{refused:?}");
}

#[tokio::test]
async fn the_old_containerd_names_no_handlers_and_knows_no_runtime_config() {
    let testbed = containerd(Containerd::Debian);
    let client = client(&testbed).await;
    let version = client.runtime().version(VersionRequest::default()).await.unwrap().into_inner();
    assert!(version.runtime_version.contains("1.6."), "{version:?}");
    let status = client.runtime().status(StatusRequest { verbose: true }).await.unwrap().into_inner();
    assert!(status.runtime_handlers.is_empty() && status.features.is_none());
    let unknown = client.runtime().runtime_config(RuntimeConfigRequest {}).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unimplemented);
}
