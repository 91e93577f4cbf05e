//! `check --cluster` on a real API server: the same answer as for a dump, rights that are missing, a server
//! that is gone, and patches that the server takes.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use testbed::{Parts, Testbed};

const KINDS: &str = "nodes,csidrivers,storageclasses,runtimeclasses,persistentvolumes,persistentvolumeclaims,\
    deployments,statefulsets,daemonsets,replicasets,cronjobs,jobs,pods";

/// More than a page of them.
const MANY: usize = 520;
/// As many of them share a volume.
const SHARING: usize = 12;

struct Cluster {
    testbed: Testbed,
    work: tempfile::TempDir,
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

impl Cluster {
    /// An API server with the shop of the report's tests in it.
    fn start() -> Self {
        let testbed = Testbed::start(Parts::control_plane()).unwrap();
        let cluster = Self { testbed, work: tempfile::tempdir().unwrap() };
        for namespace in ["shop", "media", "monitoring", "research", "ci"] {
            cluster.kubectl(&["create", "namespace", namespace]);
            // No controller makes it here, and admission wants it.
            cluster.apply(&format!(
                "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: default, namespace: {namespace}}}\n"
            ));
        }
        let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/check/shop.yaml");
        cluster.kubectl(&["create", "-f", shop.to_str().unwrap()]);
        cluster
    }

    fn kubectl(&self, words: &[&str]) -> String {
        let output = self.testbed.command("kubectl").args(words).output().unwrap();
        let (out, err) = said(&output);
        assert!(output.status.success(), "kubectl {words:?}: {err}");
        out
    }

    fn apply(&self, text: &str) {
        let mut command = self.testbed.command("kubectl");
        command
            .args(["create", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", said(&output).1);
    }

    fn wardlet(&self) -> Command {
        let mut command = self.testbed.command(env!("CARGO_BIN_EXE_wardlet"));
        command.arg("check").args(["--from", "1.36", "--to", "1.37"]);
        command
    }

    fn report(&self, words: &[&str]) -> Value {
        let output = self.wardlet().args(words).args(["-o", "json"]).output().unwrap();
        let (out, err) = said(&output);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {err}"))
    }

    fn live(&self) -> Value {
        self.report(&["--cluster"])
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The administrator's kubeconfig with another user in it.
    fn kubeconfig(&self, name: &str, user: &Value) -> PathBuf {
        let text = self.kubectl(&["config", "view", "--flatten", "-o", "json"]);
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["users"][0]["user"] = user.clone();
        self.file(name, &config.to_string())
    }

    /// A kubeconfig for a service account that may list these.
    fn reader(&self, name: &str, kinds: &[&str]) -> PathBuf {
        self.kubectl(&["create", "serviceaccount", name, "-n", "ci"]);
        if !kinds.is_empty() {
            let resource = format!("--resource={}", kinds.join(","));
            self.kubectl(&["create", "clusterrole", name, "--verb=list", &resource]);
            let who = format!("--serviceaccount=ci:{name}");
            self.kubectl(&["create", "clusterrolebinding", name, &format!("--clusterrole={name}"), &who]);
        }
        let token = self.kubectl(&["create", "token", name, "-n", "ci"]);
        self.kubeconfig(name, &json!({"token": token.trim()}))
    }
}

/// What does not depend on where the objects were written.
fn without_places(mut report: Value) -> Value {
    for workload in report["workloads"].as_array_mut().unwrap() {
        workload["source"] = Value::Null;
    }
    for driver in report["drivers"].as_array_mut().unwrap() {
        driver["source"] = Value::Null;
    }
    report
}

/// The first few share a volume.
fn many_pods() -> String {
    let mut text = String::new();
    for n in 0..MANY {
        write!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{n:03}, namespace: research}}\nspec:\n  automountServiceAccountToken: false\n  nodeName: node{}\n  securityContext: {{seLinuxOptions: {{level: \"s0:c{},c9\"}}}}\n",
            n % 3,
            n % 2
        )
        .unwrap();
        text.push_str(if n < SHARING {
            "  containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v}]}]\n  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]\n"
        } else {
            "  containers: [{name: c, image: i}]\n"
        });
    }
    text
}

const DATA: &str = "
apiVersion: v1
kind: PersistentVolume
metadata: {name: data}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  claimRef: {namespace: research, name: data}
  csi: {driver: cephfs.csi.ceph.com, volumeHandle: volumes/research/data}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: research}
spec: {accessModes: [ReadWriteMany], volumeName: data, resources: {requests: {storage: 1Gi}}}
";

#[test]
fn a_cluster_and_its_dump_give_one_answer() {
    let cluster = Cluster::start();
    cluster.apply(DATA);
    cluster.apply(&many_pods());
    let dump = cluster.kubectl(&["get", KINDS, "-A", "-o", "json"]);
    let dump = cluster.file("dump.json", &dump);
    let live = without_places(cluster.live());
    let dumped = without_places(cluster.report(&[dump.to_str().unwrap()]));
    assert_eq!(live, dumped);
    assert_eq!(live["workloads"].as_array().unwrap().len(), 9 + MANY, "every page was read");
    let shared = live["volumes"].as_array().unwrap().iter().find(|v| v["claim"] == "research/data").unwrap();
    assert_eq!(shared["users"].as_array().unwrap().len(), SHARING);
    let one_node = |c: &&Value| c["severity"] == "onOneNode";
    assert!(live["conflicts"].as_array().unwrap().iter().filter(one_node).count() > 0);
    assert_eq!(live["problems"], json!([]));
}

#[test]
fn what_a_user_may_not_list_is_said_and_the_rest_is_checked() {
    let cluster = Cluster::start();
    let pods =
        ["pods", "deployments.apps", "statefulsets.apps", "persistentvolumeclaims", "persistentvolumes"];
    let kubeconfig = cluster.reader("some", &pods);
    let report = cluster.report(&["--cluster", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    let unread: Vec<&str> =
        report["problems"].as_array().unwrap().iter().map(|p| p["field"].as_str().unwrap()).collect();
    assert!(unread.contains(&"nodes") && unread.contains(&"daemonsets"), "{unread:?}");
    assert!(!unread.contains(&"pods"), "{unread:?}");
    let kinds = report["workloads"].as_array().unwrap().iter().map(|w| w["kind"].as_str().unwrap());
    assert_eq!(kinds.collect::<std::collections::BTreeSet<_>>().len(), 3);
    // Without its driver, a volume cannot be said to be mounted with a label: the gate does not let this pass.
    let gated =
        cluster.wardlet().args(["--cluster", "--gate", "--kubeconfig"]).arg(&kubeconfig).output().unwrap();
    assert_ne!(gated.status.code(), Some(0), "{}", said(&gated).1);
}

#[test]
fn a_user_without_rights_gets_no_answer() {
    let cluster = Cluster::start();
    let kubeconfig = cluster.reader("nobody", &[]);
    let output = cluster.wardlet().args(["--cluster", "--kubeconfig"]).arg(&kubeconfig).output().unwrap();
    let (out, err) = said(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(2), ""));
    assert!(err.contains("shows neither pods nor workloads") && err.contains("hint: "), "{err}");
    let wrong = cluster.kubeconfig("wrong", &json!({"token": "nonsense"}));
    let output = cluster.wardlet().args(["--cluster", "--kubeconfig"]).arg(&wrong).output().unwrap();
    assert!(said(&output).1.contains("does not accept our credentials"), "{}", said(&output).1);
}

#[test]
fn a_server_that_is_gone_or_is_another_is_said() {
    let cluster = Cluster::start();
    let text = cluster.kubectl(&["config", "view", "--flatten", "-o", "json"]);
    let mut config: Value = serde_json::from_str(&text).unwrap();
    let check = |config: &Value| {
        let file = cluster.file("other", &config.to_string());
        let output = cluster.wardlet().args(["--cluster", "--kubeconfig"]).arg(file).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        said(&output).1
    };
    let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap().to_owned();
    // Whoever signed the client's certificate did not sign this one: it is no authority.
    let leaf = config["users"][0]["user"]["client-certificate-data"].clone();
    let mut stranger = config.clone();
    stranger["clusters"][0]["cluster"]["certificate-authority-data"] = leaf;
    let err = check(&stranger);
    assert!(err.contains("certificate") && err.contains("certificate-authority-data"), "{err}");
    let dead = format!("{}:1", server.rsplit_once(':').unwrap().0);
    config["clusters"][0]["cluster"]["server"] = json!(dead);
    let err = check(&config);
    assert!(err.contains(&format!("cannot reach {dead}: Connection refused")), "{err}");
}

fn conflicts(report: &Value) -> usize {
    report["conflicts"].as_array().unwrap().len()
}

#[test]
fn patches_pass_the_server_and_remove_what_was_found() {
    let cluster = Cluster::start();
    let before = cluster.live();
    assert_eq!(conflicts(&before), 3);
    let dir = cluster.work.path().join("patches");
    cluster.report(&["--cluster", "--write-patches", dir.to_str().unwrap()]);
    for set in ["selinux", "user-namespaces"] {
        let files = std::fs::read_dir(dir.join(set)).unwrap().map(|entry| entry.unwrap().path());
        let mut count = 0;
        for file in files {
            count += 1;
            // The patch's first line is the command that applies it.
            let text = std::fs::read_to_string(&file).unwrap();
            let command = text.lines().next().unwrap().strip_prefix("# ").unwrap();
            let Some(words) = command.strip_prefix("kubectl ") else { continue };
            // Its file is where we are not: commands of the testbed start at its root.
            let name = file.file_name().unwrap().to_str().unwrap();
            let words: Vec<String> = words
                .split_whitespace()
                .map(|w| if w == name { file.display().to_string() } else { w.into() })
                .collect();
            for more in [vec!["--dry-run=server"], vec![]] {
                let mut kubectl = cluster.testbed.command("kubectl");
                let output = kubectl.args(&words).args(&more).output().unwrap();
                assert!(output.status.success(), "{command}: {}", said(&output).1);
            }
        }
        assert!(count > 0, "no patches in {set}");
    }
    let after = cluster.live();
    assert_eq!(conflicts(&after), 0, "{}", after["conflicts"]);
    assert_eq!(after["breaks"], json!([]));
    let isolated = |report: &Value| report["summary"]["isolated"].as_u64().unwrap();
    assert!(isolated(&after) > isolated(&before), "{after}");
}

#[test]
fn kustomize_patches_pass_the_server() {
    let cluster = Cluster::start();
    let dir = cluster.work.path().join("patches");
    let words = ["--write-patches", dir.to_str().unwrap(), "--patch-format", "kustomize"];
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/check/shop.yaml");
    cluster.report(&[&[shop.to_str().unwrap()], &words[..]].concat());
    std::fs::copy(&shop, cluster.work.path().join("shop.yaml")).unwrap();
    cluster.file("kustomization.yaml", "resources: [shop.yaml]\ncomponents: [patches/selinux]\n");
    let top = cluster.work.path().to_str().unwrap();
    let built = cluster.kubectl(&["kustomize", top]);
    let built = cluster.file("built.yaml", &built);
    assert_eq!(conflicts(&cluster.report(&[built.to_str().unwrap()])), 0);
    cluster.kubectl(&["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", top]);
}
