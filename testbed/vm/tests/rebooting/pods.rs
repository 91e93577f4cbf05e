//! The pods of the node.

use serde_json::{Value, json};

use super::{IMAGE, NODE};

/// Runs until it is asked to end.
const LASTING: &str = "trap 'kill $!; exit 0' TERM; sleep 100000 & wait";
/// Each start of the container adds a line with the ID of the boot to this file, and has it written to the disk.
fn noting(file: &str) -> String {
    format!("cat /proc/sys/kernel/random/boot_id >>{file}; sync {file};")
}

/// A pod that is bound to the node, runs until it is asked to end, and says `first` what this prints.
fn pod(name: &str, first: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": NODE, "hostUsers": false, "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 5, "containers": [container("main", &format!("{first} {LASTING}"))],
        },
    })
}

fn container(name: &str, script: &str) -> Value {
    json!({"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]})
}

/// A pod with these volumes, each mounted at its name.
fn with_volumes(name: &str, first: &str, volumes: &Value) -> Value {
    let mut pod = pod(name, first);
    let names = volumes.as_array().unwrap().iter().map(|volume| volume["name"].as_str().unwrap());
    let mounts: Vec<Value> =
        names.map(|name| json!({"name": name, "mountPath": format!("/{name}")})).collect();
    pod["spec"]["containers"][0]["volumeMounts"] = json!(mounts);
    pod["spec"]["volumes"] = volumes.clone();
    pod
}

/// Objects that the pods refer to.
pub(crate) fn objects() -> [Value; 2] {
    [
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"},
            "data": {"key": "one"},
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "default"},
            "stringData": {"key": "two"},
        }),
    ]
}

/// The pod whose volumes are on the disk and in memory.
pub(crate) const DISK: &str = "disk";
/// The pod that prints what the API server has for it.
pub(crate) const SETTINGS: &str = "settings";

/// Has an emptyDir on the disk, also by a subPath, and one in memory.
fn disk() -> Value {
    let volumes =
        json!([{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}]);
    let script = ["/disk/boots", "/memory/boots", "/part/boots"].map(noting).concat();
    let mut pod = with_volumes(DISK, &script, &volumes);
    let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap();
    mounts.push(json!({"name": "disk", "mountPath": "/part", "subPath": "part"}));
    pod
}

/// Has what the API server has, and a token of its own.
fn settings() -> Value {
    let token =
        json!([{"serviceAccountToken": {"path": "token", "audience": "reboot", "expirationSeconds": 3600}}]);
    let volumes = json!([
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "token", "projected": {"sources": token}},
    ]);
    with_volumes(
        SETTINGS,
        "cat /settings/key; echo; cat /keys/key; echo; test -s /token/token || exit 1;",
        &volumes,
    )
}

/// An init container, a sidecar and two containers, that share a volume.
fn several() -> Value {
    let mut pod = pod("several", "");
    let mut sidecar = container("sidecar", LASTING);
    sidecar["restartPolicy"] = json!("Always");
    pod["spec"]["initContainers"] = json!([container("init", "exit 0"), sidecar]);
    pod["spec"]["containers"] = json!([container("first", LASTING), container("second", LASTING)]);
    pod
}

/// The node's users, in the pod's own network.
fn host_users() -> Value {
    let mut pod = pod("host-users", "");
    pod["spec"]["hostUsers"] = json!(true);
    pod
}

fn host_network() -> Value {
    let mut pod = host_users();
    pod["metadata"]["name"] = json!("host-network");
    pod["spec"]["hostNetwork"] = json!(true);
    pod
}

/// Limits, a port of the node, and a probe that finds it ready.
fn limited() -> Value {
    let mut pod = pod("limited", "touch /tmp/ready;");
    let container = &mut pod["spec"]["containers"][0];
    container["resources"] = json!({"limits": {"cpu": "200m", "memory": "64Mi"}});
    container["ports"] = json!([{"containerPort": 80, "hostPort": 8081}]);
    container["readinessProbe"] =
        json!({"exec": {"command": ["test", "-e", "/tmp/ready"]}, "timeoutSeconds": 60});
    pod
}

/// A directory of the node, which outlives the pod.
fn directory() -> Value {
    let volumes = json!([{"name": "node", "hostPath": {"path": "/var/shared", "type": "DirectoryOrCreate"}}]);
    with_volumes("directory", &noting("/node/boots"), &volumes)
}

/// A pod that is deleted while the node is off; it has volumes.
fn deleted(name: &str) -> Value {
    let volumes = json!([
        {"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "settings", "configMap": {"name": "settings"}},
    ]);
    with_volumes(name, &noting("/disk/boots"), &volumes)
}

/// The pods deleted with the usual grace, at once, and by force.
pub(crate) const DELETED: [&str; 3] = ["deleted", "hurried", "forced"];

/// A pod that is created while the node is off.
pub(crate) const CREATED: &str = "created";

pub(crate) fn created() -> Value {
    pod(CREATED, "")
}

/// So many pods that run on. The first have something to lose; the last are nothing but processes.
pub(crate) fn lasting(count: usize) -> Vec<Value> {
    let [with_grace, hurried, forced] = DELETED.map(deleted);
    let mut all = vec![disk(), settings(), hurried, forced, several(), host_users(), limited()];
    all.extend([with_grace, host_network(), directory()]);
    let plain = (all.len()..count).map(|number| pod(&format!("plain-{number}"), ""));
    all.extend(plain.collect::<Vec<_>>());
    all.truncate(count);
    all
}

/// A pod that is not run again ends with the node.
pub(crate) const ONCE: &str = "once";

/// Pods that are not run again: [`ONCE`], and one that has ended before the node goes off.
pub(crate) fn ending() -> [Value; 2] {
    [(ONCE, ""), ("ended", "exit 0;")].map(|(name, first)| {
        let mut pod = pod(name, first);
        pod["spec"]["restartPolicy"] = json!("Never");
        pod
    })
}
