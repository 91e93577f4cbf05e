//! Configurations such as containerd's.

use std::path::Path;

use serde_json::{Value, json};

use super::Pod;

/// A container of a pod; the first one, if the pod has none yet. It sleeps.
pub fn like_containerd(pod: &Pod, cgroup: &str) -> Value {
    let joined = |kind: &str| match pod.init {
        Some(init) => json!({ "type": kind, "path": format!("/proc/{init}/ns/{kind}") }),
        None => json!({ "type": kind }),
    };
    let capabilities =
        ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_MKNOD"];
    json!({
        "ociVersion": "1.0.2",
        "root": { "path": "rootfs" },
        "process": {
            "user": { "uid": 0, "gid": 0 }, "cwd": "/", "env": ["PATH=/bin"],
            "args": ["/bin/sleep", "1000"],
            "capabilities": { "bounding": capabilities, "effective": capabilities, "permitted": capabilities },
        },
        "mounts": [
            made("/proc", "proc", &["nosuid", "noexec", "nodev"]),
            made("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
            made("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
            made("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
            made("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
            made("/sys/fs/cgroup", "cgroup", &["nosuid", "noexec", "nodev", "relatime", "ro"]),
        ],
        "linux": {
            "cgroupsPath": cgroup,
            "resources": { "devices": [{ "allow": false, "access": "rwm" }] },
            "namespaces": [
                { "type": "pid" }, joined("ipc"), joined("uts"), { "type": "mount" },
                { "type": "network", "path": pod.network },
            ],
            "maskedPaths": ["/proc/acpi", "/proc/kcore", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/sys"],
        },
        "annotations": { "io.kubernetes.cri.container-type": "container" },
    })
}

fn made(target: &str, kind: &str, options: &[&str]) -> Value {
    json!({ "destination": target, "type": kind, "source": kind, "options": options })
}

/// It runs this as this user.
pub fn script(spec: &mut Value, user: u32, script: &str) {
    spec["process"]["args"] = json!(["/bin/sh", "-c", script]);
    spec["process"]["user"] = json!({ "uid": user, "gid": user });
}

/// It has this of the host.
pub fn bind(spec: &mut Value, source: &Path, target: &str, options: &[&str]) {
    let bind = json!({ "destination": target, "type": "bind", "source": source, "options": options });
    spec["mounts"].as_array_mut().unwrap().push(bind);
}
