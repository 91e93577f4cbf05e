//! The pods that are started, and what their volumes are made of.

use serde_json::{Value, json};
use testbed::images;

use super::api::collection;

/// One kind of pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    /// `hostUsers: false`.
    pub(super) isolated: bool,
    /// With a configMap, a secret, an emptyDir and a projected volume.
    pub(super) volumes: bool,
}

impl Shape {
    pub(super) const ALL: [Self; 4] = [
        Self { isolated: true, volumes: false },
        Self { isolated: true, volumes: true },
        Self { isolated: false, volumes: false },
        Self { isolated: false, volumes: true },
    ];
    /// Many at once, and idle.
    pub(super) const MANY: Self = Self { isolated: true, volumes: false };

    pub(super) fn name(self) -> String {
        let users = if self.isolated { "hostUsers false" } else { "hostUsers true" };
        format!("{users}, {}", if self.volumes { "volumes" } else { "no volumes" })
    }
}

/// The name of the pod whose process has this mark.
pub(super) fn name(mark: u32) -> String {
    format!("bench-{mark}")
}

/// A pod of one process that has this mark in its command line and ends at SIGTERM.
pub(super) fn pod(shape: Shape, mark: u32) -> Value {
    let command = format!("trap 'exit 0' TERM; /bin/busybox sleep {mark} & wait");
    let (mounts, volumes) = if shape.volumes { (mounts(), volumes()) } else { (json!([]), json!([])) };
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name(mark)},
        "spec": {
            "nodeName": "node0", "hostUsers": !shape.isolated,
            "automountServiceAccountToken": false, "enableServiceLinks": false,
            "containers": [{
                "name": "main", "image": images::BUSYBOX, "imagePullPolicy": "Never",
                "command": ["/bin/busybox", "sh", "-c", command], "volumeMounts": mounts,
            }],
            "volumes": volumes,
        },
    })
}

const NAMES: [&str; 4] = ["scratch", "settings", "secrets", "all"];

fn mounts() -> Value {
    NAMES.map(|name| json!({"name": name, "mountPath": format!("/{name}")})).into_iter().collect()
}

fn volumes() -> Value {
    json!([
        {"name": "scratch", "emptyDir": {}},
        {"name": "settings", "configMap": {"name": "bench"}},
        {"name": "secrets", "secret": {"secretName": "bench"}},
        {"name": "all", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token"}},
            {"configMap": {"name": "bench"}},
            {"secret": {"name": "bench", "items": [{"key": "password", "path": "secret"}]}},
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ]}},
    ])
}

/// An object that must be there before pods with volumes, and where it is posted.
pub(super) struct Prepared {
    pub(super) path: String,
    pub(super) object: Value,
}

pub(super) fn prepared() -> [Prepared; 2] {
    let metadata = json!({"name": "bench"});
    let map = json!({"metadata": metadata, "data": {"colour": "green", "shape": "round"}});
    let secret = json!({"metadata": metadata, "stringData": {"password": "word"}});
    [
        Prepared { path: collection("configmaps"), object: map },
        Prepared { path: collection("secrets"), object: secret },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mount_has_its_volume_and_only_isolated_pods_ask_for_a_user_namespace() {
        for shape in Shape::ALL {
            let pod = pod(shape, 7);
            let names = |path: &str| {
                let all = pod.pointer(path).and_then(Value::as_array).unwrap();
                all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(names("/spec/volumes"), names("/spec/containers/0/volumeMounts"));
            assert_eq!(names("/spec/volumes").len(), if shape.volumes { 4 } else { 0 });
            assert_eq!(pod["spec"]["hostUsers"], !shape.isolated);
            assert!(pod["spec"]["containers"][0]["command"][3].as_str().unwrap().contains("sleep 7 "));
        }
    }
}
