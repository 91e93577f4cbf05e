//! Changes of a pod's volumes.

use super::{Change, PLAIN};

const fn volume(name: &'static str, spec: &'static str, container: &'static str) -> Change {
    Change { name, spec, container, about: &[], ..PLAIN }
}

pub(super) const CHANGES: &[Change] = &[
    volume(
        "empty-dir",
        r#"{"volumes": [{"name": "empty", "emptyDir": {"sizeLimit": "16Mi"}}]}"#,
        r#"{"volumeMounts": [{"name": "empty", "mountPath": "/empty"}]}"#,
    ),
    volume(
        "memory",
        r#"{"volumes": [{"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]}"#,
        r#"{"volumeMounts": [{"name": "memory", "mountPath": "/memory"}]}"#,
    ),
    volume(
        "read-only",
        r#"{"volumes": [{"name": "closed", "emptyDir": {}}]}"#,
        r#"{"volumeMounts": [{"name": "closed", "mountPath": "/closed", "readOnly": true}]}"#,
    ),
    volume(
        "recursive-read-only",
        r#"{"volumes": [{"name": "shut", "emptyDir": {}}]}"#,
        r#"{"volumeMounts": [{"name": "shut", "mountPath": "/shut", "readOnly": true, "recursiveReadOnly": "IfPossible",
            "mountPropagation": "None"}]}"#,
    ),
    volume(
        "sub-path",
        r#"{"volumes": [{"name": "part", "emptyDir": {}}]}"#,
        r#"{"volumeMounts": [{"name": "part", "mountPath": "/part", "subPath": "a/b"}]}"#,
    ),
    volume(
        "sub-path-expr",
        r#"{"volumes": [{"name": "expr", "emptyDir": {}}]}"#,
        r#"{"env": [{"name": "SUB", "value": "x"}],
            "volumeMounts": [{"name": "expr", "mountPath": "/expr", "subPathExpr": "$(SUB)/y"}]}"#,
    ),
    volume(
        "host-path",
        r#"{"volumes": [{"name": "host", "hostPath": {"path": "HOSTDIR", "type": "Directory"}}]}"#,
        r#"{"volumeMounts": [{"name": "host", "mountPath": "/host"}]}"#,
    ),
    volume(
        "host-file",
        r#"{"volumes": [{"name": "file", "hostPath": {"path": "HOSTDIR/file", "type": "File"}}]}"#,
        r#"{"volumeMounts": [{"name": "file", "mountPath": "/file", "readOnly": true}]}"#,
    ),
    volume(
        "propagation",
        r#"{"volumes": [{"name": "below", "hostPath": {"path": "HOSTDIR"}}]}"#,
        r#"{"volumeMounts": [{"name": "below", "mountPath": "/below", "mountPropagation": "HostToContainer"}]}"#,
    ),
    Change {
        about: &["users", "powers"],
        ..volume(
            "bidirectional",
            r#"{"volumes": [{"name": "both", "hostPath": {"path": "HOSTDIR"}}]}"#,
            r#"{"securityContext": {"privileged": true},
                "volumeMounts": [{"name": "both", "mountPath": "/both", "mountPropagation": "Bidirectional"}]}"#,
        )
    },
    volume(
        "config-map",
        r#"{"volumes": [{"name": "config", "configMap": {"name": "settings", "defaultMode": 288,
            "items": [{"key": "colour", "path": "a/colour", "mode": 256}]}}]}"#,
        r#"{"volumeMounts": [{"name": "config", "mountPath": "/config"}]}"#,
    ),
    volume(
        "secret",
        r#"{"volumes": [{"name": "secret", "secret": {"secretName": "key", "optional": false}}]}"#,
        r#"{"volumeMounts": [{"name": "secret", "mountPath": "/secret", "readOnly": true}]}"#,
    ),
    volume(
        "downward",
        r#"{"volumes": [{"name": "self", "downwardAPI": {"items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}}]}}]}"#,
        r#"{"volumeMounts": [{"name": "self", "mountPath": "/self"}]}"#,
    ),
    volume(
        "projected",
        r#"{"volumes": [{"name": "all", "projected": {"defaultMode": 292, "sources": [
            {"configMap": {"name": "settings"}}, {"secret": {"name": "key"}},
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}]}"#,
        r#"{"volumeMounts": [{"name": "all", "mountPath": "/all"}]}"#,
    ),
    volume(
        "image-volume",
        r#"{"volumes": [{"name": "tools", "image": {"reference": "IMAGE", "pullPolicy": "IfNotPresent"}}]}"#,
        r#"{"volumeMounts": [{"name": "tools", "mountPath": "/tools"}]}"#,
    ),
    volume(
        "image-sub-path",
        r#"{"volumes": [{"name": "bin", "image": {"reference": "IMAGE"}}]}"#,
        r#"{"volumeMounts": [{"name": "bin", "mountPath": "/programs", "subPath": "bin"}]}"#,
    ),
    volume(
        "own-hosts",
        r#"{"volumes": [{"name": "hosts", "hostPath": {"path": "HOSTDIR/file"}}]}"#,
        r#"{"volumeMounts": [{"name": "hosts", "mountPath": "/etc/hosts"}]}"#,
    ),
    volume(
        "two-mounts",
        r#"{"volumes": [{"name": "twice", "emptyDir": {}}]}"#,
        r#"{"volumeMounts": [{"name": "twice", "mountPath": "/z"}, {"name": "twice", "mountPath": "/y", "readOnly": true}]}"#,
    ),
];
