use std::path::Path;

use ids::IdMapping;
use serde_json::{Value, json};

use crate::lease::Leased;
use crate::script;
use crate::stage::Stage;

/// What root inside may do there; none of it reaches outside its user namespace.
const CAPABILITIES: [&str; 5] = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETGID", "CAP_SETUID"];

/// The namespaces that it gets for itself. The network's is made inside the user namespace, without
/// which sysfs could not be mounted.
const NAMESPACES: [&str; 6] = ["user", "pid", "mount", "ipc", "uts", "network"];

/// The container's OCI specification. The mounts are ready: the runtime is told nothing of idmaps.
pub(crate) fn specification(stage: &Stage, leased: Leased, name: &str) -> Value {
    json!({
        "ociVersion": "1.0.2",
        "hostname": "skeleton",
        "root": { "path": stage.root },
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": ["/bin/sh", "-c", script::text()],
            "env": ["PATH=/bin"],
            "cwd": "/",
            "capabilities": {
                "bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES,
            },
            "noNewPrivileges": true,
        },
        "mounts": mounts(&stage.mapped_volume),
        "linux": {
            "cgroupsPath": format!("/{name}"),
            "namespaces": NAMESPACES.map(|kind| json!({ "type": kind })),
            "uidMappings": [line(leased.uid_map())],
            "gidMappings": [line(leased.gid_map())],
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    })
}

fn mounts(volume: &Path) -> Value {
    json!([
        { "destination": "/proc", "type": "proc", "source": "proc" },
        { "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
          "options": ["nosuid", "strictatime", "mode=755", "size=64k"] },
        { "destination": "/sys", "type": "sysfs", "source": "sysfs",
          "options": ["nosuid", "noexec", "nodev", "ro"] },
        { "destination": "/data", "type": "bind", "source": volume,
          "options": ["rbind", "nosuid", "nodev"] },
    ])
}

fn line(mapping: IdMapping) -> Value {
    json!({
        "containerID": mapping.container().get(),
        "hostID": mapping.host().first(),
        "size": mapping.length(),
    })
}
