//! `wardlet controller` on a real API server, with the rights that it needs and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testbed::{Part, Parts, Testbed, faults};
use testkit::{Dice, rounds_or, wait_for, wait_for_success, wait_until};

/// The namespace of its lease and its status.
const OWN: &str = "wardlet-system";
const DRIVER: &str = "csi.example.com";
const METRIC: &str = "selinux_warning_controller_selinux_volume_conflict";
/// What the nodes fill in, as on Fedora.
const CONTEXTS: &str =
    "process = \"system_u:system_r:container_t:s0\"\nfile = \"system_u:object_r:container_file_t:s0\"\n";

struct Cluster {
    testbed: Testbed,
    work: tempfile::TempDir,
}

fn said(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{out}\n{err}", output.status)
}

/// Rules of a ClusterRole: to list and watch resources of the core, and drivers if so, and to create events.
fn cluster_rules(core: &[&str], drivers: bool) -> Value {
    let verbs = json!(["list", "watch"]);
    let mut rules = vec![
        json!({"apiGroups": [""], "resources": core, "verbs": verbs}),
        json!({"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}),
        json!({"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}),
        json!({"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}),
    ];
    if drivers {
        rules.push(json!({"apiGroups": ["storage.k8s.io"], "resources": ["csidrivers"], "verbs": verbs}));
    }
    Value::from(rules)
}

const CORE: [&str; 4] = ["pods", "persistentvolumeclaims", "persistentvolumes", "nodes"];

impl Cluster {
    /// An API server without pods, the controller's namespace and rights, and a driver that mounts with labels.
    fn start() -> Self {
        let testbed = Testbed::start(Parts::control_plane()).unwrap();
        let cluster = Self { testbed, work: tempfile::tempdir().unwrap() };
        cluster.namespace(OWN);
        cluster.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "controller", "namespace": OWN}}));
        cluster.grant(&cluster_rules(&CORE, true));
        let subject = json!([{"kind": "ServiceAccount", "name": "controller", "namespace": OWN}]);
        cluster.apply(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "wardlet-controller"}, "subjects": subject,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "wardlet-controller"}}));
        cluster.apply(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "wardlet-controller", "namespace": OWN}, "rules": [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                "resourceNames": ["wardlet-controller"], "verbs": ["get", "update"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["configmaps"],
                "resourceNames": ["wardlet-controller"], "verbs": ["patch"]},
        ]}));
        cluster.apply(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "wardlet-controller", "namespace": OWN}, "subjects": subject,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "wardlet-controller"}}));
        cluster.apply(&json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
            "metadata": {"name": DRIVER}, "spec": {"seLinuxMount": true}}));
        cluster
    }

    /// The rights of the controller in the whole cluster.
    fn grant(&self, rules: &Value) {
        self.apply(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "wardlet-controller"}, "rules": rules}));
    }

    fn namespace(&self, name: &str) {
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        // No controller makes it here, and admission wants it.
        self.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": name}}));
    }

    #[track_caller]
    fn kubectl(&self, words: &str) -> String {
        let output = self.testbed.command("kubectl").args(words.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "kubectl {words}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn apply(&self, object: &Value) {
        let mut command = self.testbed.command("kubectl");
        command
            .args(["apply", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{object}: {}", said(&output));
    }

    /// The claim `data` of a namespace, bound to this volume of the driver.
    fn volume(&self, namespace: &str, handle: &str) {
        let name = format!("pv-{namespace}");
        self.apply(
            &json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "",
            "claimRef": {"namespace": namespace, "name": "data"},
            "csi": {"driver": DRIVER, "volumeHandle": handle}}}),
        );
        self.apply(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": namespace}, "spec": {"accessModes": ["ReadWriteMany"],
            "storageClassName": "", "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}}));
    }

    /// A pod whose containers ask for these levels and mount the claim `data`.
    fn pod(&self, namespace: &str, name: &str, levels: &[&str], policy: Option<&str>) {
        let container = |(index, level): (usize, &&str)| {
            json!({"name": format!("c{index}"), "image": "i",
                "securityContext": {"seLinuxOptions": {"level": level}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}]})
        };
        let containers: Vec<Value> = levels.iter().enumerate().map(container).collect();
        let mut spec = json!({"automountServiceAccountToken": false, "containers": containers,
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]});
        if let Some(policy) = policy {
            spec["securityContext"] = json!({"seLinuxChangePolicy": policy});
        }
        let metadata = json!({"name": name, "namespace": namespace});
        self.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}));
    }

    /// The administrator's kubeconfig with a token of a service account in it.
    fn kubeconfig(&self, account: &str) -> PathBuf {
        let token = self.token(account);
        let text = self.kubectl("config view --flatten -o json");
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["users"][0]["user"] = json!({"token": token});
        let path = self.work.path().join(format!("{account}.kubeconfig"));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    fn token(&self, account: &str) -> String {
        self.kubectl(&format!("create token {account} -n {OWN} --duration=2h")).trim().to_owned()
    }

    /// A service account, with the right to read metrics or without it.
    fn reader(&self, name: &str, may_read: bool) -> String {
        self.kubectl(&format!("create serviceaccount {name} -n {OWN}"));
        if may_read {
            self.kubectl(&format!("create clusterrole {name} --verb=get --non-resource-url=/metrics"));
            self.kubectl(&format!(
                "create clusterrolebinding {name} --clusterrole={name} --serviceaccount={OWN}:{name}"
            ));
        }
        self.token(name)
    }

    /// The controller, on a port of its own.
    fn controller(&self, port: u16, words: &[&str]) -> Controller {
        let log = self.work.path().join(format!("log-{port}"));
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let mut command = self.testbed.command(env!("CARGO_BIN_EXE_wardlet"));
        command.args(["controller", "--namespace", OWN, "--listen", &format!("127.0.0.1:{port}"), "-v"]);
        command.arg("--kubeconfig").arg(self.kubeconfig("controller")).args(words);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Controller { child, port, log }
    }

    fn curl(&self, port: u16, path: &str, token: Option<&str>) -> (u16, String) {
        let mut command = self.testbed.command("curl");
        command.args(["--silent", "--insecure", "--max-time", "10", "--write-out", "\n%{http_code}"]);
        if let Some(token) = token {
            command.args(["--header", &format!("Authorization: Bearer {token}")]);
        }
        let output = command.arg(format!("https://127.0.0.1:{port}{path}")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, code) = text.rsplit_once('\n').unwrap_or((&text, "0"));
        (code.parse().unwrap_or_default(), body.to_owned())
    }

    fn await_ready(&self, controller: &Controller) {
        wait_for_success("the controller is ready", || match self.curl(controller.port, "/readyz", None) {
            (200, _) => Ok(()),
            (code, body) => Err(format!("{code} {body}\n{}", controller.log())),
        });
    }

    /// All events of the controller, by namespace and name.
    fn events(&self) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.kubectl("get events -A -o json")).unwrap_or_default();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().filter(|event| event["source"]["component"] == "wardlet-controller").collect()
    }

    /// Pod and reason of each event, with how often there is such an event.
    fn reported(&self) -> BTreeMap<(String, String), usize> {
        let mut found = BTreeMap::new();
        for event in self.events() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let key = (text(&event["involvedObject"]["name"]), text(&event["reason"]));
            *found.entry(key).or_default() += 1;
        }
        found
    }

    fn await_events(&self, expected: &[(&str, &str)]) {
        let expected: BTreeMap<(String, String), usize> =
            expected.iter().map(|(pod, reason)| (((*pod).to_owned(), (*reason).to_owned()), 1)).collect();
        wait_for_success("the events", || {
            let found = self.reported();
            if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
        });
    }

    /// `wardlet check --from-controller`, as JSON, with its exit code.
    fn check(&self, words: &[&str]) -> (Option<i32>, Value) {
        let mut command = self.testbed.command(env!("CARGO_BIN_EXE_wardlet"));
        command.args(["check", "--from-controller", "-o", "json"]).args(words);
        let output = command.output().unwrap();
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    fn status(&self) -> Option<Value> {
        let mut command = self.testbed.command("kubectl");
        command.args(["get", "configmap", "wardlet-controller", "-n", OWN, "-o", "json"]);
        serde_json::from_slice(&command.output().unwrap().stdout).ok()
    }

    fn leader(&self) -> Option<String> {
        let mut command = self.testbed.command("kubectl");
        command.args([
            "get",
            "lease",
            "wardlet-controller",
            "-n",
            OWN,
            "-o",
            "jsonpath={.spec.holderIdentity}",
        ]);
        let output = command.output().unwrap();
        let holder = String::from_utf8(output.stdout).unwrap();
        (output.status.success() && !holder.is_empty()).then_some(holder)
    }
}

/// Killed when it is dropped.
struct Controller {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Controller {
    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn stop(mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success(), "{}", self.log());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The name of the last process with this log.
    fn replica(&self) -> String {
        wait_for("the name of the replica", || {
            let log = self.log();
            let line = log.lines().rev().find(|line| line.contains(" watches https://"))?.to_owned();
            Some(line.split("replica ").nth(1)?.split(' ').next()?.to_owned())
        })
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

/// The series of a metric: all lines but its help and type.
fn series(text: &str, name: &str) -> BTreeSet<String> {
    let own = |line: &&str| line.starts_with(&format!("{name}{{")) || line.starts_with(&format!("{name} "));
    text.lines().filter(own).map(str::to_owned).collect()
}

/// Both directions of a conflict of two pods of the namespace `default`, as upstream writes them.
fn both(property: &str, one: [&str; 2], other: [&str; 2]) -> [String; 2] {
    let line = |[a, of_a]: [&str; 2], [b, of_b]: [&str; 2]| {
        format!(
            "{METRIC}{{property=\"{property}\",pod1_namespace=\"default\",pod1_name=\"{a}\",pod1_value=\"{of_a}\",\
             pod2_namespace=\"default\",pod2_name=\"{b}\",pod2_value=\"{of_b}\"}} 1"
        )
    };
    [line(one, other), line(other, one)]
}

const LABEL: &str = "SELinuxLabelConflict";
const POLICY: &str = "SELinuxChangePolicyConflict";

#[test]
fn the_keps_examples_give_its_metrics_and_events_and_nothing_else() {
    let cluster = Cluster::start();
    let contexts = cluster.work.path().join("contexts");
    std::fs::write(&contexts, CONTEXTS).unwrap();
    let token = cluster.reader("prometheus", true);
    let controller =
        cluster.controller(8443, &["--selinux-contexts", contexts.to_str().unwrap(), "--object-series"]);
    cluster.await_ready(&controller);
    let found = || cluster.curl(8443, "/metrics", Some(&token)).1;
    let await_series = |what: &str, expected: BTreeSet<String>| {
        wait_for_success(what, || {
            let found = series(&found(), METRIC);
            if found == expected { Ok(()) } else { Err(format!("{found:#?}")) }
        });
    };
    await_series("a cluster without conflicts", BTreeSet::new());

    // The pods come before what they use: objects may come in any order.
    cluster.pod("default", "testpod-c1", &["s0:c0,c1"], None);
    cluster.pod("default", "testpod-c2", &["s0:c0,c2"], None);
    cluster.volume("default", "shared");
    let of = |categories: &str| format!("system_u:object_r:container_file_t:s0:{categories}");
    let labels = both("SELinuxLabel", ["testpod-c1", &of("c0,c1")], ["testpod-c2", &of("c0,c2")]);
    await_series("the example of labels", labels.into());
    cluster.await_events(&[("testpod-c1", LABEL), ("testpod-c2", LABEL)]);
    for event in cluster.events() {
        let (own, other) = match event["involvedObject"]["name"].as_str().unwrap() {
            "testpod-c1" => ("c0,c1", "testpod-c2"),
            _ => ("c0,c2", "testpod-c1"),
        };
        assert_eq!((&event["type"], &event["count"]), (&json!("Normal"), &json!(1)));
        let message = event["message"].as_str().unwrap();
        let start =
            format!("SELinuxLabel \"{}\" conflicts with pod {other} that uses the same volume", of(own));
        assert!(message.starts_with(&start), "{message}");
    }
    for line in [
        "kube_csidriver_info{csi_driver=\"csi.example.com\",selinux_mount=\"true\"} 1",
        "kube_persistentvolume_unique_volume_id{persistentvolume=\"pv-default\",unique_volume_id=\"kubernetes.io/csi/csi.example.com^shared\"} 1",
    ] {
        assert!(found().lines().any(|found| found == line), "{line}: {}", found());
    }

    // The example of policies: a pod that opts out, in the place of the second one.
    cluster.kubectl("delete pod testpod-c2 --now");
    await_series("without the second pod", BTreeSet::new());
    cluster.pod("default", "testpod-c2", &["s0:c0,c2"], Some("Recursive"));
    let policies = both("SELinuxChangePolicy", ["testpod-c1", "MountOption"], ["testpod-c2", "Recursive"]);
    // A pod that opts out asks for no label, as upstream has it.
    let labels = both("SELinuxLabel", ["testpod-c1", &of("c0,c1")], ["testpod-c2", ""]);
    await_series("the example of policies", policies.into_iter().chain(labels).collect());
    wait_for_success("the events of the policies", || {
        let found = cluster.reported();
        let once = |pod: &str| found.get(&(pod.to_owned(), POLICY.to_owned())) == Some(&1);
        // The second pod of this name has its own event about the label, the first pod has one already.
        let labels = |pod: &str, count| found.get(&(pod.to_owned(), LABEL.to_owned())) == Some(&count);
        let all =
            once("testpod-c1") && once("testpod-c2") && labels("testpod-c1", 1) && labels("testpod-c2", 2);
        if all && found.len() == 4 { Ok(()) } else { Err(format!("{found:?}")) }
    });

    // What must not be reported: pods that both opt out, and finished ones.
    cluster.kubectl("delete pod testpod-c1 --now");
    cluster.pod("default", "testpod-c1", &["s0:c0,c1"], Some("Recursive"));
    await_series("pods that both opt out", BTreeSet::new());
    cluster.kubectl("delete pod testpod-c1 --now");
    cluster.pod("default", "testpod-c1", &["s0:c0,c1"], None);
    wait_until("a conflict again", || !series(&found(), METRIC).is_empty());
    let phase = json!({"status": {"phase": "Succeeded"}}).to_string();
    cluster.kubectl(&format!("patch pod testpod-c1 --subresource=status --type=merge -p {phase}"));
    await_series("a finished pod", BTreeSet::new());
    controller.stop();
}

#[test]
fn a_restart_repeats_no_event_and_loses_none() {
    let cluster = Cluster::start();
    cluster.volume("default", "shared");
    cluster.pod("default", "a", &["s0:c1,c2"], None);
    cluster.pod("default", "b", &["s0:c8,c9"], None);
    let token = cluster.reader("prometheus", true);
    let controller = cluster.controller(8443, &[]);
    cluster.await_events(&[("a", LABEL), ("b", LABEL)]);
    let before = cluster.events();
    controller.stop();
    assert_eq!(cluster.leader(), None, "the lease is given up");
    // While no controller runs.
    cluster.pod("default", "c", &["s0:c100,c200"], None);
    let controller = cluster.controller(8443, &[]);
    cluster.await_events(&[("a", LABEL), ("b", LABEL), ("c", LABEL)]);
    wait_until("the new process has tried all", || {
        let (_, text) = cluster.curl(8443, "/metrics", Some(&token));
        let present = "wardlet_controller_events_total{reason=\"SELinuxLabelConflict\",result=\"present\"} 2";
        text.lines().any(|line| line == present)
    });
    controller.kill();
    let controller = cluster.controller(8443, &[]);
    cluster.pod("default", "d", &["s0:c100,c200"], None);
    cluster.await_events(&[("a", LABEL), ("b", LABEL), ("c", LABEL), ("d", LABEL)]);
    let after = cluster.events();
    for event in before {
        assert!(after.contains(&event), "it was changed: {event}");
    }
    drop(controller);
}

#[test]
fn the_leader_may_be_killed_at_any_moment_and_each_pod_has_one_event() {
    let cluster = Cluster::start();
    cluster.volume("default", "shared");
    cluster.pod("default", "first", &["s0:c1,c2"], None);
    let mut dice = Dice::thrown("the leader is killed");
    let mut replicas = vec![cluster.controller(8443, &[]), cluster.controller(8444, &[])];
    let mut expected = vec!["first".to_owned()];
    for round in 0..rounds_or(2) {
        let leader = wait_for("a leader that runs", || {
            let holder = cluster.leader()?;
            replicas.iter().position(|replica| replica.replica() == holder)
        });
        let name = format!("p{round}");
        cluster.pod("default", &name, &["s0:c8,c9"], None);
        expected.push(name);
        std::thread::sleep(Duration::from_millis(u64::try_from(dice.below(600)).unwrap()));
        let killed = replicas.remove(leader);
        let port = killed.port;
        killed.kill();
        let late = format!("late{round}");
        cluster.pod("default", &late, &["s0:c8,c9"], None);
        expected.push(late);
        replicas.push(cluster.controller(port, &[]));
        let pairs: Vec<(&str, &str)> = expected.iter().map(|pod| (pod.as_str(), LABEL)).collect();
        cluster.await_events(&pairs);
        assert!(cluster.events().iter().all(|event| event["count"] == 1), "{:?}", cluster.events());
    }
    let (code, status) = cluster.check(&["--gate"]);
    assert_eq!(code, Some(1), "{status}");
}

#[test]
fn a_missing_right_is_reported_and_the_rest_works() {
    let cluster = Cluster::start();
    cluster.grant(&cluster_rules(&CORE, false));
    cluster.volume("default", "shared");
    cluster.pod("default", "a", &["s0:c1,c2"], None);
    cluster.pod("default", "b", &["s0:c8,c9"], None);
    cluster.pod("default", "several", &["s0:c1,c2", "s0:c8,c9"], None);
    let token = cluster.reader("prometheus", true);
    let controller = cluster.controller(8443, &[]);
    cluster.await_ready(&controller);
    cluster.await_events(&[("several", "MultipleSELinuxLabels")]);
    assert_eq!(
        cluster.curl(8443, "/readyz", None),
        (200, "ok, but these cannot be read: csidrivers\n".to_owned())
    );
    let log = controller.log();
    assert!(
        log.contains("csidrivers cannot be read") && log.contains("verbs list and watch for csidrivers"),
        "{log}"
    );
    let readable = |resource: &str| {
        let (_, text) = cluster.curl(8443, "/metrics", Some(&token));
        let line = format!("wardlet_controller_resource_readable{{resource=\"{resource}\"}} 1");
        text.lines().any(|found| found == line)
    };
    assert!(readable("pods") && !readable("csidrivers"));
    wait_until("a status", || cluster.status().is_some());
    assert_eq!(cluster.status().unwrap()["data"]["unread"], "csidrivers");

    // The right is given while it runs.
    cluster.grant(&cluster_rules(&CORE, true));
    cluster.await_events(&[("several", "MultipleSELinuxLabels"), ("a", LABEL), ("b", LABEL)]);
    assert!(readable("csidrivers"));
    wait_until("a status of all", || cluster.status().is_some_and(|status| status["data"]["unread"] == ""));
}

#[test]
fn nothing_of_another_namespace_is_in_events_or_in_the_status() {
    let cluster = Cluster::start();
    // Names and levels that are found nowhere else.
    let all = [("zorblax", "quenby", "s0:c411,c412"), ("mimsy", "tulgey", "s0:c511,c512")];
    for (namespace, pod, level) in all {
        cluster.namespace(namespace);
        cluster.volume(namespace, "one-volume-for-both");
        for number in 0..7 {
            cluster.pod(namespace, &format!("{pod}-{number}"), &[level], None);
        }
        cluster.pod(namespace, &format!("{pod}-out"), &[level], Some("Recursive"));
    }
    let controller = cluster.controller(8443, &[]);
    // Each pod differs in the label; each pod, and those that opt out, in the policy.
    wait_for_success("an event for each pod, volume and property", || {
        let found = cluster.reported();
        let wrong = found.iter().any(|(_, count)| *count != 1);
        if found.len() == 32 && !wrong { Ok(()) } else { Err(format!("{} {found:?}", found.len())) }
    });
    wait_until("a status", || cluster.status().is_some_and(|status| status["data"]["meetingVolumes"] == "1"));
    let status = cluster.status().unwrap();
    let mut status_text = status["data"].to_string();
    status_text.push_str(&status["metadata"]["labels"].to_string());
    for (number, (namespace, pod, _)) in all.iter().enumerate() {
        let (foreign, foreign_pod, foreign_level) = all[1 - number];
        let bytes = cluster.kubectl(&format!("get --raw /api/v1/namespaces/{namespace}/events"));
        let categories = foreign_level.trim_start_matches("s0:");
        for hidden in [foreign, foreign_pod, categories] {
            assert!(!bytes.contains(hidden), "{hidden} is in an event of {namespace}: {bytes}");
        }
        assert!(bytes.contains("of this namespace") && bytes.contains("pods of other namespaces"), "{bytes}");
        for hidden in [*namespace, *pod] {
            assert!(!status_text.contains(hidden), "{status_text}");
        }
        for event in cluster.events().iter().filter(|event| event["metadata"]["namespace"] == *namespace) {
            let message = event["message"].as_str().unwrap();
            let own = event["involvedObject"]["name"].as_str().unwrap();
            let others: BTreeSet<String> = (0..7).map(|n| format!("{pod}-{n}")).collect();
            let named = others.iter().filter(|name| *name != own && message.contains(name.as_str())).count();
            assert!(named <= 5, "{message}");
        }
    }
    drop(controller);
}

#[test]
fn metrics_are_for_callers_with_the_right_to_them_and_health_is_for_all() {
    let cluster = Cluster::start();
    let [with, without] = [cluster.reader("prometheus", true), cluster.reader("jane", false)];
    let controller = cluster.controller(8443, &[]);
    cluster.await_ready(&controller);
    let code = |path: &str, token: Option<&str>| cluster.curl(8443, path, token).0;
    assert_eq!(code("/metrics", None), 401);
    assert_eq!(code("/metrics", Some("wrong")), 401);
    assert_eq!(code("/metrics", Some(&without)), 403);
    assert_eq!(code("/metrics", Some(&with)), 200);
    assert_eq!(code("/", Some(&with)), 403, "the right is to one path");
    assert_eq!([code("/healthz", None), code("/livez", None), code("/readyz", None)], [200; 3]);
    let (_, text) = cluster.curl(8443, "/metrics", Some(&with));
    for name in
        ["process_resident_memory_bytes", "leader_election_master_status", "wardlet_controller_conflicts"]
    {
        assert!(!series(&text, name).is_empty(), "{name}: {text}");
    }
    drop(controller);
}

#[test]
fn an_api_server_that_goes_and_comes_back_is_survived() {
    let cluster = Cluster::start();
    cluster.volume("default", "shared");
    cluster.pod("default", "a", &["s0:c1,c2"], None);
    cluster.pod("default", "b", &["s0:c8,c9"], None);
    let controller = cluster.controller(8443, &[]);
    cluster.await_events(&[("a", LABEL), ("b", LABEL)]);
    let mut control = Testbed::attach(cluster.testbed.name()).unwrap();
    faults::kill(&control, Part::Apiserver).unwrap();
    std::thread::sleep(Duration::from_secs(12));
    // A controller that starts in the outage.
    let late = cluster_late(&cluster);
    control.restart(Part::Apiserver).unwrap();
    cluster.pod("default", "c", &["s0:c100,c200"], None);
    cluster.await_events(&[("a", LABEL), ("b", LABEL), ("c", LABEL)]);
    cluster.await_ready(&late);
    wait_until("a gate on the new numbers", || {
        let (code, status) = cluster.check(&["--gate"]);
        code == Some(1) && status["pods"] == 3
    });
    drop((controller, late));
}

/// A second controller with the credentials of the first.
fn cluster_late(cluster: &Cluster) -> Controller {
    let log = cluster.work.path().join("log-8444");
    let file = File::options().create(true).append(true).open(&log).unwrap();
    let mut command: Command = cluster.testbed.command(env!("CARGO_BIN_EXE_wardlet"));
    command.args(["controller", "--namespace", OWN, "--listen", "127.0.0.1:8444", "--kubeconfig"]);
    command.arg(cluster.work.path().join("controller.kubeconfig"));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn().unwrap();
    Controller { child, port: 8444, log }
}

#[test]
fn a_gate_reads_the_numbers_and_nothing_else() {
    let cluster = Cluster::start();
    let (code, _) = cluster.check(&["--gate"]);
    assert_eq!(code, Some(2), "there is no status yet");
    let controller = cluster.controller(8443, &[]);
    let passes = || cluster.check(&["--gate"]);
    wait_until("a status without conflicts", || passes().0 == Some(0));
    cluster.volume("default", "shared");
    cluster.pod("default", "a", &["s0:c1,c2"], None);
    cluster.pod("default", "b", &["s0:c8,c9"], None);
    wait_until("a status with a conflict", || passes().0 == Some(1));
    let (code, status) = cluster.check(&[]);
    assert_eq!(code, Some(0), "without --gate it only shows");
    for (key, number) in
        [("conflicts", 1), ("labelConflicts", 1), ("volumes", 1), ("meetingVolumes", 1), ("pods", 2)]
    {
        assert_eq!(status[key], number, "{key}: {status}");
    }
    // A user with the right to one ConfigMap.
    cluster.kubectl(&format!("create serviceaccount gate -n {OWN}"));
    cluster.kubectl(&format!(
        "create role gate -n {OWN} --verb=get --resource=configmaps --resource-name=wardlet-controller"
    ));
    cluster.kubectl(&format!("create rolebinding gate -n {OWN} --role=gate --serviceaccount={OWN}:gate"));
    let kubeconfig = cluster.kubeconfig("gate");
    let words = ["--gate", "--kubeconfig", kubeconfig.to_str().unwrap()];
    assert_eq!(cluster.check(&words).0, Some(1));
    drop(controller);
}
