//! The recorded calls of one client, by pod and call, with what differs from run to run replaced.
//!
//! Replaced are IDs (the pod's UID, sandboxes, containers, the first host ID of the pod's block), addresses of pods, the
//! time at which a kubelet has seen the pod, and the directories whose names have the pod's UID. Nothing else is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::decode;
use super::flat::{Flat, flat};
use super::schema::schema;
use crate::recorder::{Call, message};
use crate::{Error, Result};

/// Addresses that the testbed's network gives to pods: 10.88.0.0/22.
const PODS: [&str; 4] = ["10.88.0.", "10.88.1.", "10.88.2.", "10.88.3."];

/// Calls that are compared. Others list or read, or name nothing but an object that must go.
pub(crate) const COMPARED: [&str; 7] = [
    "RunPodSandbox",
    "CreateContainer",
    "ExecSync",
    "StopContainer",
    "UpdateContainerResources",
    "PullImage",
    "ImageStatus",
];

/// In place of a pod for calls that do not say which pod they are for.
pub(crate) const NO_POD: &str = "images";

/// The calls of one client: by pod, then by call, each distinct request once.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Recording {
    pub(crate) pods: BTreeMap<String, BTreeMap<String, BTreeSet<Flat>>>,
    /// Containers that were started, as `POD/CONTAINER`.
    pub(crate) started: BTreeSet<String>,
}

/// What is known of a pod by the calls that made it.
#[derive(Debug, Default)]
struct Known {
    uid: String,
    /// The first host ID of its block.
    first: Option<String>,
    /// Sandboxes and containers by ID: what to write in its place.
    objects: BTreeMap<String, String>,
}

struct Decoded {
    method: String,
    tree: Value,
}

impl Recording {
    /// Reads a file of calls from line `skip` on.
    ///
    /// # Errors
    /// If it cannot be read, or a request is not a message of its method.
    pub(crate) fn read(file: &Path, skip: usize) -> Result<Self> {
        let text = std::fs::read_to_string(file).map_err(Error::file("read", file))?;
        // The last line may be written at this moment.
        let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
        let wrong = |error: serde_json::Error| Error::Recording { cause: error.to_string() };
        let calls = whole.lines().skip(skip).map(|line| serde_json::from_str(line).map_err(wrong));
        Self::of(&calls.collect::<Result<Vec<Call>>>()?)
    }

    /// The calls in their order.
    pub(crate) fn of(calls: &[Call]) -> Result<Self> {
        let mut objects = Objects::default();
        let mut all = Vec::new();
        for call in calls {
            if let Some(decoded) = decoded(call)? {
                objects.learn(call, &decoded.tree)?;
                all.push(decoded);
            }
        }
        let mut recording = Self::default();
        for (pod, reason) in calls.iter().filter_map(refusal) {
            let fields = Flat::from([("reason".to_owned(), reason.to_owned())]);
            let of_pod = recording.pods.entry(pod.to_owned()).or_default();
            of_pod.insert("refusal".to_owned(), BTreeSet::from([fields]));
        }
        all.iter().for_each(|decoded| recording.add(decoded, &objects));
        Ok(recording)
    }

    fn add(&mut self, Decoded { method, tree }: &Decoded, objects: &Objects) {
        let id = text(tree, "/container_id");
        let pod = match method.as_str() {
            "RunPodSandbox" => text(tree, "/config/metadata/name"),
            "CreateContainer" | "PullImage" => text(tree, "/sandbox_config/metadata/name"),
            "ImageStatus" => NO_POD,
            _ => objects.owners.get(id).map(String::as_str).unwrap_or_default(),
        };
        let unknown = Known::default();
        let known = objects.pods.get(pod).unwrap_or(&unknown);
        let container = known.objects.get(id).map(String::as_str);
        if method == "StartContainer" {
            self.started.extend(container.map(|name| format!("{pod}/{name}")));
            return;
        }
        let container = container.unwrap_or_default();
        let attempt = number(tree, "/config/metadata/attempt");
        let about = match method.as_str() {
            "RunPodSandbox" => format!("attempt {attempt}"),
            "CreateContainer" => format!("{} attempt {attempt}", text(tree, "/config/metadata/name")),
            "PullImage" | "ImageStatus" => text(tree, "/image/image").to_owned(),
            "ExecSync" => format!("{container} {}", command(tree)),
            _ => container.to_owned(),
        };
        let calls = self.pods.entry(pod.to_owned()).or_default();
        calls.entry(format!("{method} {about}")).or_default().insert(known.normalised(&flat(tree)));
    }
}

/// What is known of the pods, and which sandboxes and containers they have.
#[derive(Debug, Default)]
struct Objects {
    pods: BTreeMap<String, Known>,
    /// The pod of each sandbox and container, by ID.
    owners: BTreeMap<String, String>,
}

impl Objects {
    fn learn(&mut self, call: &Call, tree: &Value) -> Result<()> {
        let Some(made) = Made::of(call, tree)? else { return Ok(()) };
        let known = self.pods.entry(made.pod.clone()).or_default();
        known.learn(tree);
        // A call that failed has made nothing.
        if !made.id.is_empty() {
            known.objects.insert(made.id.clone(), made.what);
            self.owners.insert(made.id, made.pod);
        }
        Ok(())
    }
}

/// What the runner writes into the recording for a pod that a client refused: no call, but the reason.
pub(crate) fn refused(pod: &str, reason: &str) -> Call {
    Call { path: format!("{REFUSED}{pod}"), request: reason.to_owned(), response: String::new() }
}

fn refusal(call: &Call) -> Option<(&str, &str)> {
    Some((call.path.strip_prefix(REFUSED)?, &call.request))
}

const REFUSED: &str = "/refused/";

fn decoded(call: &Call) -> Result<Option<Decoded>> {
    let method = call.method();
    if method != "StartContainer" && !COMPARED.contains(&method) {
        return Ok(None);
    }
    let wrong = || Error::Recording { cause: format!("a request of {method} is no message of that method") };
    let name = schema().request(method).ok_or_else(wrong)?;
    let tree = decode::message(name, &message(&call.request)?).ok_or_else(wrong)?;
    Ok(Some(Decoded { method: method.to_owned(), tree }))
}

/// What a call that makes a sandbox or a container is about.
struct Made {
    /// The ID of the new object; empty if the call failed.
    id: String,
    pod: String,
    /// What is written in the ID's place.
    what: String,
}

impl Made {
    fn of(call: &Call, tree: &Value) -> Result<Option<Self>> {
        let (response, at, pod, what) = match call.method() {
            "RunPodSandbox" => {
                ("RunPodSandboxResponse", "/pod_sandbox_id", "/config/metadata/name", "sandbox")
            }
            "CreateContainer" => (
                "CreateContainerResponse",
                "/container_id",
                "/sandbox_config/metadata/name",
                text(tree, "/config/metadata/name"),
            ),
            _ => return Ok(None),
        };
        let answer = decode::message(response, &message(&call.response)?).unwrap_or_default();
        let id = text(&answer, at).to_owned();
        Ok(Some(Self { id, pod: text(tree, pod).to_owned(), what: what.to_owned() }))
    }
}

fn text<'a>(tree: &'a Value, pointer: &str) -> &'a str {
    tree.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number(tree: &Value, pointer: &str) -> u64 {
    tree.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

fn command(tree: &Value) -> String {
    let words = tree.get("cmd").and_then(Value::as_array).into_iter().flatten();
    words.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

impl Known {
    fn learn(&mut self, request: &Value) {
        let config = request.get("sandbox_config").or_else(|| request.get("config"));
        let Some(config) = config else { return };
        self.uid = text(config, "/metadata/uid").to_owned();
        let first = "/linux/security_context/namespace_options/userns_options/uids/0/host_id";
        self.first = config.pointer(first).map(Value::to_string);
    }

    fn normalised(&self, fields: &Flat) -> Flat {
        let one = |(path, text): (&String, &String)| (self.text(path), self.value(path, text));
        fields.iter().map(one).collect()
    }

    fn value(&self, path: &str, text: &str) -> String {
        if path.ends_with("host_id") && self.first.as_deref() == Some(text) {
            return "<first>".to_owned();
        }
        if path.ends_with("[kubernetes.io/config.seen]") {
            return "<time>".to_owned();
        }
        if path.ends_with("log_directory")
            && let Some((_, name)) = text.rsplit_once('/')
        {
            return format!("<logs>/{}", self.text(name));
        }
        if let Some(name) = self.objects.get(text) {
            return format!("<{name}>");
        }
        if PODS.iter().any(|network| text.strip_prefix(network).is_some_and(is_byte)) {
            return "<address>".to_owned();
        }
        self.path(text)
    }

    /// A path without what depends on the pod's UID and on the directory of all pods.
    fn path(&self, text: &str) -> String {
        let directory = format!("/pods/{}", self.uid);
        if self.uid.is_empty() || !text.starts_with('/') {
            return self.text(text);
        }
        match text.split_once(&directory) {
            Some((_, below)) => format!("<pod>{}", instance(below)),
            None => self.text(text),
        }
    }

    fn text(&self, text: &str) -> String {
        if self.uid.is_empty() { text.to_owned() } else { text.replace(&self.uid, "<uid>") }
    }
}

/// The file of a termination message is named by an ID of the container's instance.
fn instance(below: &str) -> String {
    match below.strip_prefix("/containers/").and_then(|rest| rest.split_once('/')) {
        Some((container, name)) if !name.contains('/') => format!("/containers/{container}/<instance>"),
        _ => below.to_owned(),
    }
}

fn is_byte(text: &str) -> bool {
    text.parse::<u8>().is_ok()
}
