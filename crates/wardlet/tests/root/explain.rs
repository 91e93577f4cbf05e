//! `wardlet explain` on the node itself: the kernel is tried, not guessed.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const CONFIG: &str = "userNamespaces: {pool: {uids: [\"1073741824-1075052543\"]}}\n";

/// The answer for a pod with a user namespace and this path of the host.
fn explained(dir: &Path, host_path: &Path) -> Value {
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  hostUsers: false\n  containers:\n  \
         - {{name: app, image: \"web:1\", volumeMounts: [{{name: data, mountPath: /data}}]}}\n  \
         volumes: [{{name: data, hostPath: {{path: \"{}\"}}}}]\n",
        host_path.display()
    );
    std::fs::write(dir.join("pod.yaml"), manifest).unwrap();
    std::fs::write(dir.join("config.yaml"), CONFIG).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wardlet"));
    command.args(["explain", "pod.yaml", "--config", "config.yaml", "-o", "json", "--state-dir", "state"]);
    let output = command.current_dir(dir).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

#[test]
fn the_kernel_is_tried_on_the_filesystem_of_a_host_path() {
    let dir = tempfile::tempdir().unwrap();
    let answer = explained(dir.path(), dir.path());
    let facts = &answer["facts"];
    assert_eq!(facts["kernel"]["userNamespaces"], "yes", "{facts}");
    assert_eq!(facts["kernel"]["idmappedMounts"], "yes", "{facts}");
    let filesystem = facts["filesystems"]["paths"][dir.path().to_str().unwrap()].as_str().unwrap();
    assert!(!facts["filesystems"]["idmap"][filesystem].is_null(), "{facts}");
    let notes = answer["notes"].to_string();
    assert!(!notes.contains("the kernel was not tried"), "{notes}");
}

/// A link to a filesystem that cannot be idmapped must not be taken for the one that it lies on.
#[test]
fn a_link_is_followed_to_the_filesystem_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("/proc/sys", &link).unwrap();
    let answer = explained(dir.path(), &link.join("not-there"));
    let pod = &answer["pods"][0];
    assert_eq!(pod["verdict"], "refused", "{answer}");
    assert_eq!(pod["refusals"][0]["field"], "spec.volumes[0]");
    assert!(pod["refusals"][0]["cause"].as_str().unwrap().contains("on proc"), "{pod}");
    assert_eq!(answer["facts"]["filesystems"]["kinds"]["emptyDir"].as_str().map(str::is_empty), Some(false));
}
