//! Labels and annotations by which a later process finds the containers of a pod again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use lifecycle::Moment;
use manifest::k8s_openapi::api::core::v1::{
    Container, ContainerPort, HTTPHeader, Lifecycle, LifecycleHandler, Pod,
};
use manifest::k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

use crate::cri::go_json;
use crate::pod::hash::hash;

/// The annotation with a kubelet's hash of a container's definition.
pub(crate) const HASH: &str = "io.kubernetes.container.hash";
/// The annotation with our hash of a container's definition.
const OWN_HASH: &str = "wardlet.dev/container-hash";
const GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
const PORTS: &str = "io.kubernetes.container.ports";
/// The annotation of a sandbox with the time at which a kubelet saw the pod first.
pub(crate) const SEEN: &str = "kubernetes.io/config.seen";
/// The annotation of a sandbox with the source that a kubelet had the pod from.
pub(crate) const SOURCE: &str = "kubernetes.io/config.source";
/// The source of a pod that is in a file of the node.
const FILE: &str = "file";
/// The source of a pod of the API server.
const API: &str = "api";

/// Offset basis and prime of FNV-1a with 32 bits.
const BASIS: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// Whose annotations the sandboxes and containers of a pod have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Ours: a container is that of a definition if all of it is equal.
    Own,
    /// A kubelet's, which a kubelet adopts and whose containers this agent adopts: a container is that of a definition if
    /// name and image are.
    Kubelet {
        /// When this process saw the pod first, as a kubelet writes it.
        seen: String,
    },
}

impl Marks {
    /// A kubelet's, of a pod that is seen now.
    pub(crate) fn of_kubelet(now: Moment) -> Self {
        Self::Kubelet { seen: types::time::stamp(now.millis() / 1000) }
    }

    /// The number that tells this definition of a container from others.
    pub(crate) fn revision(&self, container: &Container) -> u64 {
        match self {
            Self::Own => hash(container),
            Self::Kubelet { .. } => kubelet_hash(container).into(),
        }
    }

    /// The annotations of a container that are about its definition.
    pub(crate) fn of_container(&self, pod: &Pod, container: &Container) -> BTreeMap<String, String> {
        match self {
            Self::Own => BTreeMap::from([(OWN_HASH.to_owned(), format!("{:016x}", hash(container)))]),
            Self::Kubelet { .. } => of_kubelet(pod, container),
        }
    }

    /// The annotations of a pod, as a kubelet has them: with those that say where it has the pod from.
    pub(crate) fn of_pod(&self, pod: &Pod) -> BTreeMap<String, String> {
        let mut all = pod.metadata.annotations.clone().unwrap_or_default();
        if let Self::Kubelet { seen } = self {
            all.insert(SEEN.to_owned(), seen.clone());
            let is_file = all.get(SOURCE).is_some_and(|source| source == FILE);
            all.insert(SOURCE.to_owned(), if is_file { FILE } else { API }.to_owned());
        }
        all
    }

    /// How to read the revisions of containers that run already.
    pub(crate) fn revisions<'a>(&self, containers: impl Iterator<Item = &'a Container>) -> Revisions {
        match self {
            Self::Own => Revisions { key: OWN_HASH, by_own_hash: BTreeMap::new() },
            Self::Kubelet { .. } => {
                let both = containers.map(|container| (hash(container), self.revision(container)));
                Revisions { key: HASH, by_own_hash: both.collect() }
            }
        }
    }
}

/// Reads the revision of a container in its annotations.
#[derive(Debug, Clone)]
pub(crate) struct Revisions {
    key: &'static str,
    /// Revisions by our hash, for containers of earlier versions of this agent, which wrote no other.
    by_own_hash: BTreeMap<u64, u64>,
}

impl Revisions {
    /// 0, which no definition has, if nothing in the annotations tells it.
    pub(crate) fn of(&self, annotations: &BTreeMap<String, String>) -> u64 {
        let number = |key: &str| u64::from_str_radix(annotations.get(key)?, 16).ok();
        if let Some(revision) = number(self.key) {
            return revision;
        }
        number(OWN_HASH).and_then(|own| self.by_own_hash.get(&own).copied()).unwrap_or(0)
    }
}

/// What the annotations of a container say about how it is stopped, for a pod whose definition is not known any more.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StopData {
    /// How long it may take to end after SIGTERM; `None` if nothing says that.
    pub(crate) grace: Option<Duration>,
    /// The container, with its name and preStop hook only.
    pub(crate) container: Container,
}

impl StopData {
    /// Reads what a kubelet, or this agent in its place, has written.
    pub(crate) fn read(name: &str, annotations: &BTreeMap<String, String>) -> Self {
        let grace = annotations.get(GRACE).and_then(|text| text.parse().ok());
        let pre_stop: Option<LifecycleHandler> =
            annotations.get(PRE_STOP).and_then(|text| serde_json::from_str(text).ok());
        let ports = annotations.get(PORTS).and_then(|text| serde_json::from_str(text).ok());
        let lifecycle = pre_stop.map(|hook| Lifecycle { pre_stop: Some(hook), ..Lifecycle::default() });
        Self {
            grace: grace.map(Duration::from_secs),
            container: Container { name: name.to_owned(), lifecycle, ports, ..Container::default() },
        }
    }
}

/// A kubelet's hash of a container: FNV-1a of a printed list of the bytes of a JSON text.
fn kubelet_hash(container: &Container) -> u32 {
    #[derive(Serialize)]
    struct Hashed<'a> {
        image: &'a str,
        name: &'a str,
    }
    let hashed = Hashed { image: container.image.as_deref().unwrap_or_default(), name: &container.name };
    let mut printed = String::from("([]uint8)[");
    for (index, byte) in go_json::text(&hashed).bytes().enumerate() {
        let space = if index == 0 { "" } else { " " };
        // Writing into a string does not fail.
        let _ = write!(printed, "{space}{byte}");
    }
    printed.push(']');
    printed.bytes().fold(BASIS, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME))
}

fn of_kubelet(pod: &Pod, container: &Container) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([(HASH.to_owned(), format!("{:x}", kubelet_hash(container)))]);
    let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    all.extend(grace.map(|seconds| (GRACE.to_owned(), seconds.to_string())));
    let pre_stop = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    all.extend(pre_stop.map(|hook| (PRE_STOP.to_owned(), go_json::text(&Handler::of(hook)))));
    let ports: Vec<Port<'_>> = container.ports.iter().flatten().map(Port::of).collect();
    if !ports.is_empty() {
        all.insert(PORTS.to_owned(), go_json::text(&ports));
    }
    all
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// A port with its fields in the order in which Go writes them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Port<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    host_port: i32,
    container_port: i32,
    #[serde(skip_serializing_if = "str::is_empty")]
    protocol: &'a str,
    #[serde(rename = "hostIP", skip_serializing_if = "str::is_empty")]
    host_ip: &'a str,
}

impl<'a> Port<'a> {
    fn of(port: &'a ContainerPort) -> Self {
        Self {
            name: port.name.as_deref().unwrap_or_default(),
            host_port: port.host_port.unwrap_or_default(),
            container_port: port.container_port,
            protocol: port.protocol.as_deref().unwrap_or_default(),
            host_ip: port.host_ip.as_deref().unwrap_or_default(),
        }
    }
}

/// A hook with its fields in the order in which Go writes them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Handler<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    exec: Option<Exec<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_get: Option<HttpGet<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_socket: Option<TcpSocket<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sleep: Option<Sleep>,
}

#[derive(Serialize)]
struct Exec<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    command: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HttpGet<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    path: &'a str,
    port: &'a IntOrString,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    scheme: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    http_headers: Vec<Header<'a>>,
}

#[derive(Serialize)]
struct Header<'a> {
    name: &'a str,
    value: &'a str,
}

#[derive(Serialize)]
struct TcpSocket<'a> {
    port: &'a IntOrString,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'a str,
}

#[derive(Serialize)]
struct Sleep {
    seconds: i64,
}

impl<'a> Handler<'a> {
    fn of(hook: &'a LifecycleHandler) -> Self {
        let header = |header: &'a HTTPHeader| Header { name: &header.name, value: &header.value };
        Self {
            exec: hook
                .exec
                .as_ref()
                .map(|exec| Exec { command: exec.command.as_deref().unwrap_or_default() }),
            http_get: hook.http_get.as_ref().map(|get| HttpGet {
                path: get.path.as_deref().unwrap_or_default(),
                port: &get.port,
                host: get.host.as_deref().unwrap_or_default(),
                scheme: get.scheme.as_deref().unwrap_or_default(),
                http_headers: get.http_headers.iter().flatten().map(header).collect(),
            }),
            tcp_socket: hook.tcp_socket.as_ref().map(|socket| TcpSocket {
                port: &socket.port,
                host: socket.host.as_deref().unwrap_or_default(),
            }),
            sleep: hook.sleep.as_ref().map(|sleep| Sleep { seconds: sleep.seconds }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(value: serde_json::Value) -> Container {
        serde_json::from_value(value).unwrap()
    }

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn kubelet() -> Marks {
        Marks::of_kubelet(Moment::from_millis(1_772_368_205_123))
    }

    /// With another hash every container of the node restarts when a kubelet or this agent takes it over.
    #[test]
    fn the_hash_is_a_kubelets() {
        let known = container(json!({"name": "test_container", "image": "foo/image:v1"}));
        assert_eq!(kubelet().revision(&known), 0x8e45_cbd0);
        let of_container = kubelet().of_container(&Pod::default(), &known);
        assert_eq!(of_container, BTreeMap::from([(HASH.to_owned(), "8e45cbd0".to_owned())]));
        let other = container(json!({"name": "test_container", "image": "foo/image:v1", "tty": true}));
        assert_eq!(kubelet().revision(&other), 0x8e45_cbd0, "the rest does not count");
        assert_ne!(Marks::Own.revision(&other), Marks::Own.revision(&known));
    }

    #[test]
    fn a_container_keeps_what_its_stop_needs_in_the_bytes_of_a_kubelet() {
        let pod = pod(json!({"spec": {"terminationGracePeriodSeconds": 7, "containers": []}}));
        let web = container(json!({
            "name": "web", "image": "i",
            "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}, {"hostPort": 1, "containerPort": 2, "hostIP": "::1"}],
            "lifecycle": {"preStop": {"httpGet": {"scheme": "HTTP", "port": "http", "path": "/stop?a&b", "httpHeaders": [{"value": "v", "name": "n"}]}}},
        }));
        let all = kubelet().of_container(&pod, &web);
        assert_eq!(all[GRACE], "7");
        let ports = r#"[{"name":"http","containerPort":80,"protocol":"TCP"},{"hostPort":1,"containerPort":2,"hostIP":"::1"}]"#;
        assert_eq!(all[PORTS], ports);
        let hook = r#"{"httpGet":{"path":"/stop?a\u0026b","port":"http","scheme":"HTTP","httpHeaders":[{"name":"n","value":"v"}]}}"#;
        assert_eq!(all[PRE_STOP], hook);

        let read = StopData::read("web", &all);
        assert_eq!(read.grace, Some(Duration::from_secs(7)));
        assert_eq!(read.container.lifecycle, web.lifecycle);
        assert_eq!(StopData::read("web", &BTreeMap::new()).grace, None);
        for hook in [
            json!({"exec": {"command": ["a", "b"]}}),
            json!({"sleep": {"seconds": 3}}),
            json!({"tcpSocket": {"port": 5}}),
        ] {
            let one = container(json!({"name": "a", "lifecycle": {"preStop": hook}}));
            assert_eq!(kubelet().of_container(&Pod::default(), &one)[PRE_STOP], hook.to_string());
        }
    }

    #[test]
    fn the_source_of_a_pod_is_the_nodes_word() {
        let forged = pod(json!({"metadata": {"annotations": {SEEN: "never", SOURCE: "else", "a": "b"}}}));
        let all = kubelet().of_pod(&forged);
        let expected = [("a", "b"), (SEEN, "2026-03-01T12:30:05Z"), (SOURCE, "api")];
        assert_eq!(all, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        let of_file = pod(json!({"metadata": {"annotations": {SOURCE: "file"}}}));
        assert_eq!(kubelet().of_pod(&of_file)[SOURCE], "file");
        assert_eq!(Marks::Own.of_pod(&of_file).len(), 1);
    }

    /// Such containers restarted when the agent became one that writes a kubelet's hash.
    #[test]
    fn containers_with_our_hash_alone_are_those_of_the_same_definition() {
        let (same, other) =
            (container(json!({"name": "a", "image": "i"})), container(json!({"name": "a", "image": "j"})));
        let revisions = kubelet().revisions([&same].into_iter());
        let own = |one: &Container| Marks::Own.of_container(&Pod::default(), one);
        assert_eq!(revisions.of(&own(&same)), kubelet().revision(&same));
        assert_eq!(revisions.of(&own(&other)), 0);
        let of_kubelet = kubelet().of_container(&Pod::default(), &other);
        assert_eq!(revisions.of(&of_kubelet), kubelet().revision(&other));
        assert_eq!(Marks::Own.revisions([].into_iter()).of(&own(&same)), Marks::Own.revision(&same));
    }
}
