//! Another client of a CRI runtime, as a kubelet is: its sandboxes are not wardlet's.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::path::Path;

use cri::Endpoint;
use cri::client::Client;
use tokio::runtime::Runtime;

/// A client, and the sandboxes that it made: they are removed when it is dropped, while the runtime is served.
pub(crate) struct Foreign {
    threads: Runtime,
    client: Client,
    made: Vec<String>,
}

impl Foreign {
    /// To the runtime that listens there, or will in a moment.
    pub(crate) fn connect(socket: &Path) -> Self {
        let threads =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let endpoint = Endpoint::try_from(socket.to_owned()).unwrap();
        let client =
            testkit::wait_for("the runtime serves", || threads.block_on(Client::connect(&endpoint)).ok());
        Self { threads, client, made: Vec::new() }
    }

    /// Makes a sandbox of the pod `kube-system/foreign` with this UID, labelled as a kubelet does.
    pub(crate) fn make(&mut self, uid: &str) -> String {
        let metadata = cri::PodSandboxMetadata {
            name: "foreign".into(),
            namespace: "kube-system".into(),
            uid: uid.into(),
            attempt: 0,
        };
        let labels = [
            ("io.kubernetes.pod.uid", uid),
            ("io.kubernetes.pod.name", "foreign"),
            ("io.kubernetes.pod.namespace", "kube-system"),
        ];
        let labels: BTreeMap<String, String> = labels.map(|(key, text)| (key.into(), text.into())).into();
        let host = cri::NamespaceMode::Node.into();
        let namespaces = cri::NamespaceOption { network: host, ..Default::default() };
        let security_context = Some(cri::LinuxSandboxSecurityContext {
            namespace_options: Some(namespaces),
            ..Default::default()
        });
        let linux = Some(cri::LinuxPodSandboxConfig { security_context, ..Default::default() });
        let config = cri::PodSandboxConfig { metadata: Some(metadata), labels, linux, ..Default::default() };
        let request = cri::RunPodSandboxRequest { config: Some(config), ..Default::default() };
        let made = self.threads.block_on(self.client.runtime().run_pod_sandbox(request)).unwrap();
        let id = made.into_inner().pod_sandbox_id;
        self.made.push(id.clone());
        id
    }

    /// All sandboxes of the runtime that are ready, by pod UID.
    pub(crate) fn ready(&self) -> Vec<String> {
        let listed = self.list().into_iter().filter(|s| s.state() == cri::PodSandboxState::SandboxReady);
        listed.map(|sandbox| sandbox.id).collect()
    }

    pub(crate) fn list(&self) -> Vec<cri::PodSandbox> {
        let request = cri::ListPodSandboxRequest::default();
        let listed = self.threads.block_on(self.client.runtime().list_pod_sandbox(request));
        listed.unwrap().into_inner().items
    }

    /// The pods that have a sandbox, as `UID namespace/name`.
    pub(crate) fn pods(&self) -> Vec<String> {
        let pod = |sandbox: cri::PodSandbox| {
            let metadata = sandbox.metadata.unwrap();
            format!("{} {}/{}", metadata.uid, metadata.namespace, metadata.name)
        };
        let mut pods: Vec<String> = self.list().into_iter().map(pod).collect();
        pods.sort();
        pods
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        for id in std::mem::take(&mut self.made) {
            let stop = cri::StopPodSandboxRequest { pod_sandbox_id: id.clone() };
            let _ = self.threads.block_on(self.client.runtime().stop_pod_sandbox(stop));
            let remove = cri::RemovePodSandboxRequest { pod_sandbox_id: id };
            let _ = self.threads.block_on(self.client.runtime().remove_pod_sandbox(remove));
        }
    }
}
