//! What a runtime says on its socket: the names of pods, what they asked for, and their first processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cri::client::Client;
use cri::{CallError, Endpoint, within};
use cri::{
    ListPodSandboxRequest, NamespaceMode, PodSandbox, PodSandboxState, PodSandboxStatusRequest,
    PodSandboxStatusResponse,
};
use node::Node;
use serde_json::Value;
use types::keys;

use crate::scan::ReportedSandbox;

/// How long a runtime may take for one answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Default CRI sockets of runtimes.
const USUAL: [&str; 4] = [
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    BUILT_IN,
];
const BUILT_IN: &str = "/run/wardlet/cri.sock";

/// What switches user namespaces on in annotations.
const ANNOTATIONS: [(&str, &str); 4] = [
    (keys::USER_NAMESPACE, "true"),
    (keys::GVISOR_USER_NAMESPACE, "true"),
    (keys::CRIO_USER_NAMESPACE[0], "auto"),
    (keys::CRIO_USER_NAMESPACE[1], "auto"),
];

/// Which runtimes are asked: those at the usual sockets, and that of this node's state directory.
pub(crate) fn endpoints(node: &Node, named: Option<&Endpoint>) -> Vec<Endpoint> {
    let Some(endpoint) = named else {
        let own = node.instance().run_dir().join("cri.sock");
        let sockets =
            USUAL.iter().map(PathBuf::from).chain(Some(own).filter(|own| *own != Path::new(BUILT_IN)));
        let sockets = sockets.map(|socket| node.host_root().path(&socket)).filter(|socket| socket.exists());
        return sockets.filter_map(|socket| Endpoint::try_from(socket).ok()).collect();
    };
    vec![endpoint.clone()]
}

/// Why a runtime did not tell.
#[derive(Debug)]
pub(crate) enum Silence {
    /// Nothing listens on the socket.
    Absent(String),
    /// The endpoint accepted the connection and did not respond.
    Failed(String),
}

/// All sandboxes; of those that are ready and that `wanted` picks, also what they asked for and their first
/// process: a question more for each.
pub(crate) fn ask(
    endpoint: &Endpoint,
    wanted: impl Fn(&ReportedSandbox) -> bool,
) -> Result<Vec<ReportedSandbox>, Silence> {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let threads = threads.map_err(|e| Silence::Failed(format!("cannot start the CRI client: {e}")))?;
    threads.block_on(asked(endpoint, wanted))
}

async fn asked(
    endpoint: &Endpoint,
    wanted: impl Fn(&ReportedSandbox) -> bool,
) -> Result<Vec<ReportedSandbox>, Silence> {
    let client = Client::connect(endpoint).await.map_err(|e| match e {
        cri::Error::Absent { .. } | cri::Error::NobodyListens { .. } => Silence::Absent(e.to_string()),
        e => Silence::Failed(e.to_string()),
    })?;
    let mut runtime = client.runtime();
    let list = within(PATIENCE, "ListPodSandbox", runtime.list_pod_sandbox(ListPodSandboxRequest::default()));
    let list = list.await.map_err(|error| failed(endpoint, &error))?;
    let mut reported = Vec::with_capacity(list.items.len());
    for sandbox in list.items {
        let mut one = from_list(sandbox);
        if one.ready && wanted(&one) {
            let request = PodSandboxStatusRequest { pod_sandbox_id: one.id.clone(), verbose: true };
            // One that has gone since it was listed says nothing more.
            let status = within(PATIENCE, "PodSandboxStatus", runtime.pod_sandbox_status(request));
            if let Ok(status) = status.await {
                add_status(&mut one, &status);
            }
        }
        reported.push(one);
    }
    Ok(reported)
}

fn from_list(sandbox: PodSandbox) -> ReportedSandbox {
    let ready = sandbox.state() == PodSandboxState::SandboxReady;
    let asked = ANNOTATIONS.iter().any(|(key, value)| {
        sandbox
            .annotations
            .get(*key)
            .is_some_and(|found| found == value || found.starts_with(&format!("{value}:")))
    });
    let metadata = sandbox.metadata.unwrap_or_default();
    ReportedSandbox {
        id: sandbox.id,
        uid: metadata.uid,
        namespace: metadata.namespace,
        name: metadata.name,
        ready,
        asked,
        pid: None,
        cgroup: None,
    }
}

fn add_status(reported: &mut ReportedSandbox, answer: &PodSandboxStatusResponse) {
    let options = answer.status.as_ref().and_then(|status| status.linux.as_ref());
    let options =
        options.and_then(|linux| linux.namespaces.as_ref()).and_then(|spaces| spaces.options.as_ref());
    let users = options.and_then(|options| options.userns_options.as_ref());
    reported.asked |= users.is_some_and(|users| users.mode() == NamespaceMode::Pod && !users.uids.is_empty());
    let info: Option<Value> = answer.info.get("info").and_then(|info| serde_json::from_str(info).ok());
    reported.pid = info.as_ref().and_then(pid_in);
    reported.cgroup = info.as_ref().and_then(cgroup_in);
}

/// containerd and CRI-O both write it so.
fn pid_in(info: &Value) -> Option<u32> {
    info.get("pid")?.as_u64().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0)
}

/// The built-in runtime writes it so.
fn cgroup_in(info: &Value) -> Option<String> {
    info.get("cgroupParent")?.as_str().map(str::to_owned)
}

fn failed(endpoint: &Endpoint, error: &CallError) -> Silence {
    let socket = endpoint.socket().display();
    Silence::Failed(match error {
        CallError::Refused { code, message, .. } => format!("{socket} answers {code:?}: {message}"),
        CallError::DeadlineExceeded { seconds, .. } => {
            format!("{socket} did not respond within {seconds} s")
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_process_is_read_from_what_runtimes_write_about_themselves() {
        assert_eq!(pid_in(&json!({"pid": 42, "processStatus": "running"})), Some(42));
        assert_eq!(pid_in(&json!({"pid": 0})), None);
        assert_eq!(pid_in(&json!("none")), None);
        assert_eq!(cgroup_in(&json!({"cgroupParent": "/a/b"})).as_deref(), Some("/a/b"));
        assert_eq!(cgroup_in(&json!({"pid": 42})), None);
    }
}
