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
    answer_of(dir, &["explain", "pod.yaml"])
}

fn answer_of(dir: &Path, words: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wardlet"));
    command.args(words).args(["--config", "config.yaml", "-o", "json", "--state-dir", "state"]);
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

/// `explain` took every handler for one that has user namespaces, and `run` refused the pod.
#[test]
fn the_built_in_runtime_is_tried_and_has_no_other_handler() {
    let dir = tempfile::tempdir().unwrap();
    let answer = explained(dir.path(), dir.path());
    let handlers = &answer["facts"]["runtime"]["handlers"];
    let able = serde_json::json!({"userNamespaces": true, "recursiveReadOnlyMounts": true});
    assert_eq!(*handlers, serde_json::json!({"": able, "libcontainer": able}), "{answer}");
    assert_eq!(answer["facts"]["runtime"]["userNamespacesHostNetwork"], true);
    assert!(!answer["notes"].to_string().contains("was not asked"), "{answer}");

    let class =
        "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: other}\nhandler: other\n---\n";
    let pod = std::fs::read_to_string(dir.path().join("pod.yaml")).unwrap();
    let pod = pod.replace("hostUsers: false", "hostUsers: false\n  runtimeClassName: other");
    std::fs::write(dir.path().join("other.yaml"), format!("{class}{pod}")).unwrap();
    let answer = answer_of(dir.path(), &["explain", "other.yaml"]);
    let cause = &answer["pods"][0]["refusals"][0]["cause"];
    assert_eq!(*cause, "the container runtime has no handler \"other\"", "{answer}");
}

#[test]
fn a_runtime_that_was_named_and_does_not_answer_is_no_basis_for_a_plan() {
    let dir = tempfile::tempdir().unwrap();
    explained(dir.path(), dir.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_wardlet"));
    let socket = dir.path().join("none.sock");
    command.arg("explain").arg(dir.path().join("pod.yaml")).arg("--runtime-endpoint").arg(&socket);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(socket.to_str().unwrap()) && output.stdout.is_empty(), "{said}");
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
