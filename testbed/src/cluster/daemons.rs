//! The daemons of each part: what is run, with which arguments, and how it is known to be ready.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::addresses::{API_SERVER, ETCD, NODE_IP, NODE_NAME};
use super::handlers;
use super::parts::{Containerd, NodeAgent, Part};
use super::record::Record;
use crate::{Error, Result, cache, images, own, program, registry};

/// One daemon to start.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
}

impl Launch {
    pub(crate) fn new(name: &str, program: PathBuf, arguments: impl IntoIterator<Item = String>) -> Self {
        Self { name: name.to_owned(), program, arguments: arguments.into_iter().collect() }
    }
}

/// The arguments in `text`, one per blank, with the testbed's places put in.
fn arguments(record: &Record, text: &str) -> Vec<String> {
    fill(record, text).split_whitespace().map(str::to_owned).collect()
}

/// Puts the testbed's places into a template.
pub(crate) fn fill(record: &Record, template: &str) -> String {
    template
        .replace("@DATA@", &record.places.data.display().to_string())
        .replace("@RUN@", &record.places.run.display().to_string())
        .replace("@PKI@", &record.places.pki().display().to_string())
}

fn configuration(record: &Record, name: &str, text: &str) -> Result<String> {
    let path = record.places.data.join(name);
    fs::write(&path, fill(record, text)).map_err(Error::file("write", &path))?;
    Ok(path.display().to_string())
}

/// What to run for `part`.
pub(crate) fn launches(record: &Record, part: Part) -> Result<Vec<Launch>> {
    match part {
        Part::Etcd => one(part, cache::program("etcd", "etcd")?, arguments(record, &etcd())),
        Part::Apiserver => {
            one(part, cache::program("kube-apiserver", "kube-apiserver")?, arguments(record, APISERVER))
        }
        Part::ControllerManager => one(
            part,
            cache::program("kube-controller-manager", "kube-controller-manager")?,
            arguments(record, CONTROLLER_MANAGER),
        ),
        Part::Scheduler => {
            one(part, cache::program("kube-scheduler", "kube-scheduler")?, arguments(record, SCHEDULER))
        }
        Part::Registry => registry::launches(record),
        Part::Containerd => containerd(record),
        Part::Recorder => {
            let own = std::env::current_exe().map_err(Error::file("find", "/proc/self/exe"))?;
            one(part, own, vec!["internal-record".into(), record.name.clone()])
        }
        Part::Kubelet => kubelet(record),
    }
}

fn one(part: Part, program: PathBuf, arguments: Vec<String>) -> Result<Vec<Launch>> {
    Ok(vec![Launch::new(part.name(), program, arguments)])
}

fn etcd() -> String {
    let peer = "http://127.0.0.1:2380";
    format!(
        "--data-dir @DATA@/etcd --listen-client-urls http://{ETCD} --advertise-client-urls http://{ETCD} \
         --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} --initial-cluster default={peer} \
         --unsafe-no-fsync --log-level warn"
    )
}

const APISERVER: &str = "--etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 \
    --advertise-address=10.240.0.10 --secure-port=6443 \
    --tls-cert-file=@PKI@/apiserver.crt --tls-private-key-file=@PKI@/apiserver.key \
    --client-ca-file=@PKI@/ca.crt --kubelet-certificate-authority=@PKI@/ca.crt \
    --kubelet-client-certificate=@PKI@/apiserver-kubelet.crt \
    --kubelet-client-key=@PKI@/apiserver-kubelet.key \
    --kubelet-preferred-address-types=InternalIP,Hostname \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file=@PKI@/sa.pub --service-account-signing-key-file=@PKI@/sa.key \
    --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC \
    --enable-admission-plugins=NodeRestriction --allow-privileged=true --endpoint-reconciler-type=none \
    --requestheader-client-ca-file=@PKI@/front-proxy-ca.crt --requestheader-allowed-names=front-proxy-client \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file=@PKI@/front-proxy-client.crt --proxy-client-key-file=@PKI@/front-proxy-client.key \
    --enable-bootstrap-token-auth";

const CONTROLLER_MANAGER: &str = "--kubeconfig=@PKI@/controller-manager.kubeconfig \
    --authentication-kubeconfig=@PKI@/controller-manager.kubeconfig \
    --authorization-kubeconfig=@PKI@/controller-manager.kubeconfig --bind-address=127.0.0.1 \
    --root-ca-file=@PKI@/ca.crt --service-account-private-key-file=@PKI@/sa.key \
    --use-service-account-credentials --cluster-signing-cert-file=@PKI@/ca.crt \
    --cluster-signing-key-file=@PKI@/ca.key --leader-elect=false --allocate-node-cidrs=true \
    --cluster-cidr=10.244.0.0/16";

const SCHEDULER: &str = "--kubeconfig=@PKI@/scheduler.kubeconfig \
    --authentication-kubeconfig=@PKI@/scheduler.kubeconfig \
    --authorization-kubeconfig=@PKI@/scheduler.kubeconfig --bind-address=127.0.0.1 --leader-elect=false";

const WARDLET_CRI: &str = "cri --listen unix://@RUN@/containerd.sock --state-dir @DATA@/wardlet \
    --run-dir @RUN@/wardlet --registries @DATA@/registries.yaml --cgroup /containers";

/// Our own runtime, with the engine that `WARDLET_ENGINE` names or its own.
fn wardlet(record: &Record) -> Result<Vec<Launch>> {
    registry::for_wardlet(record)?;
    let mut arguments = arguments(record, WARDLET_CRI);
    if let Ok(engine) = std::env::var("WARDLET_ENGINE") {
        arguments.extend(["--engine".to_owned(), engine]);
    }
    one(Part::Containerd, own::program("wardlet")?, arguments)
}

fn containerd(record: &Record) -> Result<Vec<Launch>> {
    if record.runtime_is_in_agent() {
        return Ok(Vec::new());
    }
    registry::mirror(record)?;
    let (program, runc, template, plugin) = match record.containerd {
        Containerd::Wardlet => return wardlet(record),
        Containerd::Pinned => (
            cache::program("containerd", "containerd")?,
            cache::program("runc", "runc")?,
            include_str!("../../etc/containerd.toml"),
            "io.containerd.cri.v1.runtime",
        ),
        Containerd::Debian => (
            debian("/usr/bin/containerd")?,
            debian("/usr/sbin/runc")?,
            include_str!("../../etc/containerd-debian.toml"),
            "io.containerd.grpc.v1.cri",
        ),
    };
    let handlers = handlers::tables(record, plugin, &runc)?;
    let text = template.replace("@HANDLERS@", &handlers).replace("@PAUSE@", images::PAUSE);
    let config = configuration(record, "containerd.toml", &text)?;
    one(Part::Containerd, program, vec!["-c".into(), config])
}

fn debian(path: &str) -> Result<PathBuf> {
    let path = PathBuf::from(path);
    if path.exists() {
        return Ok(path);
    }
    let binary = path.display().to_string();
    Err(Error::NotInstalled { binary, component: "old-pair".into(), version: "debian".into() })
}

fn kubelet(record: &Record) -> Result<Vec<Launch>> {
    configuration(record, "resolv.conf", "")?;
    let text = kubelet_flags(record)?;
    match record.node_agent {
        NodeAgent::Kubelet => {
            one(Part::Kubelet, cache::program("kubelet", "kubelet")?, arguments(record, &text))
        }
        NodeAgent::Wardlet => one(Part::Kubelet, own::program("wardlet")?, agent_arguments(record, &text)),
    }
}

/// The arguments of `wardlet agent` in the place of this testbed's kubelet.
///
/// # Errors
/// If the kubelet's configuration cannot be written.
pub(crate) fn wardlet_agent(record: &Record) -> Result<Vec<String>> {
    Ok(agent_arguments(record, &kubelet_flags(record)?))
}

/// The flags of a node, with its configuration written.
fn kubelet_flags(record: &Record) -> Result<String> {
    let manifests = record.places.data.join("manifests");
    fs::create_dir_all(&manifests).map_err(Error::file("make", manifests))?;
    let socket = if record.parts.has(Part::Recorder) {
        record.places.recorder_socket()
    } else {
        record.places.containerd_socket()
    };
    let text = include_str!("../../etc/kubelet.yaml").replace("@CRI@", &socket.display().to_string());
    let config = configuration(record, "kubelet.yaml", &text)?;
    Ok(format!(
        "--config={config} --hostname-override={NODE_NAME} --node-ip={NODE_IP} \
         --kubeconfig=@PKI@/kubelet.kubeconfig --v=2"
    ))
}

/// `wardlet agent` with the flags of a kubelet.
fn agent_arguments(record: &Record, flags: &str) -> Vec<String> {
    let runtime = if record.runtime_is_in_agent() { "--builtin-runtime" } else { "" };
    let text = format!("agent {runtime} --state-dir @DATA@/wardlet --run-dir @RUN@/wardlet -- {flags}");
    arguments(record, &text)
}

/// Whether the part answers; what it lacks otherwise.
pub(crate) fn ready(record: &Record, part: Part) -> Result<(), String> {
    let said = |error: Error| error.to_string();
    match part {
        Part::Etcd => connect(ETCD),
        Part::Apiserver => get(record, "/readyz").map(|_| ()).map_err(said),
        Part::ControllerManager => {
            get(record, "/api/v1/namespaces/default/serviceaccounts/default").map(|_| ()).map_err(said)
        }
        Part::Scheduler => connect("127.0.0.1:10259"),
        Part::Registry => registry::ready(),
        Part::Containerd if record.runtime_is_in_agent() => Ok(()),
        Part::Containerd => {
            UnixStream::connect(record.places.containerd_socket()).map_err(|error| error.to_string())?;
            match record.containerd {
                Containerd::Wardlet => Ok(()),
                _ => program::run(ctr(record).arg("version")).map(|_| ()).map_err(said),
            }
        }
        Part::Recorder => UnixStream::connect(record.places.recorder_socket())
            .map(|_| ())
            .map_err(|error| error.to_string()),
        Part::Kubelet => {
            let node = get(record, &format!("/api/v1/nodes/{NODE_NAME}")).map_err(said)?;
            node_ready(&node).then_some(()).ok_or_else(|| "the node is not Ready yet".into())
        }
    }
}

pub(crate) fn connect(address: &str) -> Result<(), String> {
    TcpStream::connect(address).map(|_| ()).map_err(|error| format!("{address}: {error}"))
}

/// `ctr` of the containerd that runs, in the namespace of Kubernetes.
pub(crate) fn ctr(record: &Record) -> Command {
    let program = match record.containerd {
        Containerd::Pinned => cache::program("containerd", "ctr").unwrap_or_else(|_| "ctr".into()),
        Containerd::Debian | Containerd::Wardlet => "/usr/bin/ctr".into(),
    };
    let mut command = Command::new(program);
    command.arg("--address").arg(record.places.containerd_socket()).args(["--namespace", "k8s.io"]);
    command
}

/// A curl as the administrator; to be run inside.
fn curl(pki: &Path) -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail-with-body", "--max-time", "5"]);
    command.arg("--cacert").arg(pki.join("ca.crt"));
    command.arg("--cert").arg(pki.join("admin.crt")).arg("--key").arg(pki.join("admin.key"));
    command
}

fn get(record: &Record, path: &str) -> Result<String> {
    program::text(curl(&record.places.pki()).arg(format!("https://{API_SERVER}{path}")))
}

fn node_ready(node: &str) -> bool {
    let node: serde_json::Value = serde_json::from_str(node).unwrap_or_default();
    let conditions = node.pointer("/status/conditions").and_then(serde_json::Value::as_array);
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

/// Without a controller manager the service account that every pod is admitted with has to be created here.
pub(crate) fn default_service_account(record: &Record) -> Result<()> {
    let url = format!("https://{API_SERVER}/api/v1/namespaces/default/serviceaccounts");
    let body = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#;
    let mut command = curl(&record.places.pki());
    program::run(command.args(["-H", "Content-Type: application/json", "-d", body]).arg(url)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_ready_only_when_its_condition_says_so() {
        assert!(node_ready(r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#));
        assert!(!node_ready(r#"{"status":{"conditions":[{"type":"Ready","status":"False"}]}}"#));
        assert!(!node_ready("not json"));
    }
}
