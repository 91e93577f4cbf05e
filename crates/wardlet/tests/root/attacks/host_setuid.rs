//! A program of the host's root, left by an isolated pod.
//!
//! A hostPath volume is idmapped to the pod's block, so that what the pod's root writes there is the host root's on
//! disk. The pod sets the set-user-ID or set-group-ID bit or file capabilities on a program, and an ordinary user of
//! the host who runs it has root's power. `nosuid` on the pod's own mount does not stop this, nor does Kubernetes; the
//! host's own mount decides, and the node's policy says what becomes of a pod that has none with `nosuid`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::run_support::{Node, text};
use crate::test_pods::Site;

/// An ordinary user of the host.
const USER: &str = "--reuid=12345";
const GROUP: &str = "--regid=12345";

/// The pod uses the host's own programs, which it cannot change.
const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: left}
spec:
  hostUsers: false
  restartPolicy: Never
  volumes:
  - {name: data, hostPath: {path: DATA, type: Directory}}
  - {name: usr, hostPath: {path: /usr, type: Directory}}
  - {name: lib, hostPath: {path: /usr/lib, type: Directory}}
  - {name: lib64, hostPath: {path: /usr/lib64, type: Directory}}
  containers:
  - name: app
    image: IMAGE
    command: [sh, -c]
    args:
    - |
      set -e
      /usr/bin/cp /usr/bin/id /data/setuid
      /usr/bin/cp /usr/bin/id /data/setgid
      /usr/bin/cp /usr/bin/cat /data/capable
      /usr/bin/chmod 4755 /data/setuid
      /usr/bin/chmod 2755 /data/setgid
      /usr/sbin/setcap cap_dac_read_search+ep /data/capable
    volumeMounts:
    - {name: data, mountPath: /data}
    - {name: usr, mountPath: /usr, readOnly: true}
    - {name: lib, mountPath: /lib, readOnly: true}
    - {name: lib64, mountPath: /lib64, readOnly: true}
"#;

struct Attack {
    node: Node,
    data: PathBuf,
}

impl Attack {
    fn new() -> Self {
        let node = Node::built_in();
        let data = node.path("data");
        fs::create_dir(&data).unwrap();
        for dir in [data.parent().unwrap(), &data] {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(node.path("secret"), "of root's alone").unwrap();
        fs::set_permissions(node.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        Self { node, data }
    }

    /// The host's own mount of the directory has this flag from now on.
    fn remount(&self, flag: &str) {
        let data = self.data.to_str().unwrap();
        let option = format!("remount,bind,{flag}");
        for words in [&["--bind", data, data][..], &["-o", &option, data]] {
            let output = self.node.testbed.command("mount").args(words).output().unwrap();
            assert!(output.status.success(), "{}", text(&output));
        }
    }

    fn manifest(&self) -> String {
        let pod = POD.replace("DATA", self.data.to_str().unwrap());
        self.node.manifest("pod.yaml", &pod).to_str().unwrap().to_owned()
    }

    /// Runs the pod under this policy.
    fn run(&self, policy: &str) -> Output {
        self.node.run(&["--config", &self.config(policy), &self.manifest()]).output().unwrap()
    }

    /// The warnings about the directory, as `explain` has them.
    fn warnings(&self) -> Vec<serde_json::Value> {
        let config = self.config("warn");
        let answer = self.node.json(&["--config", &config, "explain", &self.manifest()]);
        let all = answer["pods"][0]["warnings"].as_array().unwrap_or_else(|| panic!("{answer:#}")).clone();
        all.into_iter().filter(|warning| warning["field"] == "spec.volumes[0]").collect()
    }

    fn config(&self, policy: &str) -> String {
        let path = self.node.path("config.yaml");
        fs::write(&path, format!("policy: {{volumes: {{hostSetuid: {policy}}}}}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// What a program says that an ordinary user of the host runs.
    fn as_user(&self, program: &str, words: &[&str]) -> String {
        let mut command = self.node.testbed.command("setpriv");
        command.args([USER, GROUP, "--clear-groups", "--"]).arg(self.data.join(program)).args(words);
        String::from_utf8_lossy(&command.output().unwrap().stdout).trim().to_owned()
    }

    /// What an ordinary user becomes by the programs that were left: its user, its group, and what it reads.
    fn powers(&self) -> (String, String, String) {
        let secret = self.node.path("secret");
        let secret = secret.to_str().unwrap();
        (self.as_user("setuid", &["-u"]), self.as_user("setgid", &["-g"]), self.as_user("capable", &[secret]))
    }
}

fn powers(user: &str, group: &str, read: &str) -> (String, String, String) {
    (user.to_owned(), group.to_owned(), read.to_owned())
}

#[test]
fn what_an_isolated_pod_leaves_has_roots_power_on_the_host_and_is_warned_of() {
    let attack = Attack::new();
    let output = attack.run("warn");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(attack.powers(), powers("0", "0", "of root's alone"), "the risk that is warned of");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("spec.volumes[0]") && said.contains(attack.data.to_str().unwrap()), "{said}");
    assert_eq!(attack.warnings().len(), 1);
}

#[test]
fn a_pod_that_could_leave_a_program_of_roots_does_not_start_where_the_policy_refuses_it() {
    let attack = Attack::new();
    let output = attack.run("refuse");
    assert!(!output.status.success(), "the attack worked: {:?}", attack.powers());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("spec.volumes[0]") && said.contains("policy.volumes.hostSetuid"), "{said}");
    assert_eq!(fs::read_dir(&attack.data).unwrap().count(), 0, "the pod has started");
}

#[test]
fn on_a_host_mount_that_is_nosuid_nothing_counts_and_nothing_is_warned_of_or_refused() {
    let attack = Attack::new();
    attack.remount("nosuid");
    assert_eq!(attack.warnings(), Vec::<serde_json::Value>::new());
    let output = attack.run("refuse");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(attack.powers(), powers("12345", "12345", ""));
}

/// A pod that runs already, started by any runtime.
#[test]
fn verify_names_a_path_where_a_pod_that_runs_can_leave_such_a_program() {
    let site = Site::new(3_690_987_520, 16);
    let isolated = site.isolated_pod("left-by-hand");
    let volume = |uid: &str| -> Vec<String> {
        let report = site.passes(uid);
        let notes = report["notes"].as_array().unwrap_or_else(|| panic!("{report:#}")).clone();
        let texts = notes.iter().filter_map(|note| note["text"].as_str().map(str::to_owned));
        texts.filter(|text| text.contains("/volume,") && text.contains("nosuid")).collect()
    };
    assert_eq!(volume(&isolated.uid).len(), 1);
    // Only root can pass to it from here on.
    let scratch = isolated.volume();
    let above: &Path = scratch.parent().unwrap();
    fs::set_permissions(above, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(volume(&isolated.uid), Vec::<String>::new());
}
