//! `wardlet-oci` with runc, under strace: a pod of two containers as containerd's shim creates them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::difference::Observed;
use crate::programs::{Build, run};
use crate::shape::{self, Values};
use crate::{files, trace};

const SCRIPT: &str = include_str!("wrapper.sh");

/// A pod of the wrapper's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pod {
    pub(crate) name: &'static str,
    /// Whether it asks for a user namespace.
    asks: bool,
}

pub(crate) const PODS: [Pod; 2] =
    [Pod { name: "wrapper, plain pod", asks: false }, Pod { name: "wrapper, pod with users", asks: true }];

/// What happens to the pod.
pub(crate) fn observe(build: &Build, pod: Pod) -> anyhow::Result<Vec<Observed>> {
    let dir = build.path("wrapper");
    fs::create_dir(&dir)?;
    configure(&dir, pod)?;
    let output = run(Command::new("unshare")
        .args(["--mount", "sh", "-c", SCRIPT, "wrapper.sh"])
        .arg(&dir)
        .arg(build.programs.join("wardlet-oci"))
        .arg(trace::CALLS))?;
    ensure!(output.status.success(), "{}: {}", pod.name, String::from_utf8_lossy(&output.stderr));
    let results = dir.join("results");
    let text = |name: &str| fs::read_to_string(results.join(name)).unwrap_or_default();
    let codes = text("codes");
    ensure!(!codes.is_empty(), "{}: nothing was run", pod.name);
    let mut seen =
        vec![Observed { subject: "wrapper exit codes", lines: codes.lines().map(str::to_owned).collect() }];
    for name in ["sandbox", "container"] {
        let state: Value = serde_json::from_str(&text(&format!("state {name}.out"))).unwrap_or_default();
        let lines = shape::json(&state, Values::WithoutNumbers, &build.mask);
        seen.push(Observed { subject: "wrapper state", lines });
        let inside = ["users", "mounts"].map(|what| text(&format!("{what} of {name}.out"))).concat();
        let lines = inside.lines().map(|line| build.mask.apply(line)).collect();
        seen.push(Observed { subject: "wrapper users and mounts", lines });
    }
    let mut lines = files::listed(&results.join("run"), &build.mask)?;
    lines.extend(files::listed(&results.join("state"), &build.mask)?);
    seen.push(Observed { subject: "wrapper files", lines });
    let lines = trace::calls(&results.join("trace"), &build.mask)?;
    seen.push(Observed { subject: "wrapper mount and namespace calls", lines });
    fs::remove_dir_all(&dir).with_context(|| dir.display().to_string())?;
    Ok(seen)
}

/// The node's configuration and those of the containers, as containerd writes them.
fn configure(dir: &Path, pod: Pod) -> anyhow::Result<()> {
    let text = format!(
        "{}wrapper: {{runtime: /usr/sbin/runc, runDir: {1}/run, user_namespace_state_dir: {1}/state, \
         enable_user_namespace_annotation: true}}\n",
        crate::programs::POOL,
        dir.display()
    );
    fs::write(dir.join("config.yaml"), text)?;
    for kind in ["sandbox", "container"] {
        fs::write(dir.join(format!("{kind}.json")), spec(dir, kind, pod).to_string())?;
    }
    Ok(())
}

fn spec(dir: &Path, kind: &str, pod: Pod) -> Value {
    let mut annotations = json!({
        "io.kubernetes.cri.container-type": kind, "io.kubernetes.cri.sandbox-id": "compare-sandbox",
        "io.kubernetes.cri.sandbox-namespace": "default", "io.kubernetes.cri.sandbox-name": "compare",
    });
    if let (Some(all), true) = (annotations.as_object_mut(), pod.asks) {
        all.insert("wardlet.dev/user-namespace".to_owned(), json!("true"));
    }
    let mount = |at: &str, kind: &str, options: &[&str]| json!({"destination": at, "type": kind, "source": kind, "options": options});
    json!({
        "ociVersion": "1.0.2", "root": {"path": "rootfs"}, "annotations": annotations,
        "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "args": ["/bin/sleep", "10000"]},
        "mounts": [
            mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
            mount("/dev", "tmpfs", &["nosuid", "mode=755"]),
            mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
            {"destination": "/etc/hosts", "type": "bind", "source": "/etc/hosts", "options": ["rbind", "rprivate", "ro"]},
        ],
        "linux": {
            "resources": {"devices": [{"allow": false, "access": "rwm"}]},
            "namespaces": [{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"},
                {"type": "network", "path": dir.join("network")}],
        },
    })
}
