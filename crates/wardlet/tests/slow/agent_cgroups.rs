//! The cgroups of `wardlet agent` on the built-in runtime, beside those of a real kubelet on the same machine. The agent has a
//! `cgroupRoot` of its own, in the testbed's own cgroups.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{Part, Parts, Testbed, User, Validity, images, yardstick};
use testkit::{PATIENCE, wait_for, wait_until};

const NODE: &str = "agent0";
const KUBELET: &str = "node0";
const IMAGE: &str = "localhost/agent-cgroups:1";
/// The cgroup that the agent's `kubepods` is in.
const ROOT: &str = "agent";
/// Where limits are, in any version of cgroups.
const FILES: [&str; 9] = [
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.weight",
    "cpu.max",
    "memory.limit_in_bytes",
    "memory.max",
    "pids.max",
    "cpuset.cpus",
];

struct Cluster {
    testbed: Testbed,
    dir: tempfile::TempDir,
}

/// Killed when it is dropped.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default());
        }
        let _ = self.wardlet().args(["stop", "--all", "--grace", "0"]).output();
    }
}

impl Cluster {
    fn start(parts: Parts) -> Self {
        let testbed = Testbed::start(parts).unwrap();
        let dir = tempfile::Builder::new().prefix("wc").tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        let cluster = Self { testbed, dir };
        let archive = cluster.dir.path().join("image.tar");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/busybox-image.sh");
        assert!(Command::new(script).arg(IMAGE).arg(&archive).status().unwrap().success());
        assert!(cluster.wardlet().args(["image", "import"]).arg(&archive).status().unwrap().success());
        cluster
    }

    fn wardlet(&self) -> Command {
        let mut command = self.testbed.command(testkit::programs().join("wardlet"));
        command.arg("--state-dir").arg(self.dir.path().join("state"));
        command
    }

    /// The testbed's directories of this cgroup, one in each hierarchy, as the host sees them.
    fn dirs(&self, cgroup: &str) -> Vec<PathBuf> {
        let below = cgroup.trim_start_matches('/');
        self.testbed.record().cgroups.iter().map(|dir| dir.join(below)).collect()
    }

    /// The cgroup that the agent's configuration names must exist.
    fn make_root(&self) {
        self.dirs(ROOT).iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    }

    /// Starts the agent, with these fields over its configuration.
    fn agent(&self, more: &Value) -> Agent {
        let pki = |name: &str| self.testbed.kubeconfig().with_file_name(name).display().to_string();
        let mut config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "tlsCertFile": pki("kubelet-serving.crt"), "tlsPrivateKeyFile": pki("kubelet-serving.key"),
            "authentication": {"x509": {"clientCAFile": pki("ca.crt")}},
            "port": 10260, "healthzPort": 0, "failCgroupV1": false, "cgroupRoot": format!("/{ROOT}"),
            "podLogsDir": self.dir.path().join("logs/pods"),
            // However full the disk of this machine is.
            "evictionHard": {"nodefs.available": "0%"}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let file = self.dir.path().join("kubelet.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let common_name = format!("system:node:{NODE}");
        let organization = Some("system:nodes");
        let user = User { file: NODE, common_name: &common_name, organization, validity: Validity::Valid };
        let log = self.dir.path().join("log");
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut command = self.wardlet();
        command.args(["agent", "--builtin-runtime", "--run-dir"]).arg(self.dir.path().join("run")).arg("--");
        command.arg(format!("--kubeconfig={}", self.testbed.user_kubeconfig(&user).unwrap().display()));
        command.arg(format!("--config={}", file.display()));
        command.arg(format!("--cert-dir={}", self.dir.path().join("pki").display()));
        // A kubelet removes what it does not know from its own.
        command.arg(format!("--root-dir={}", self.dir.path().join("kubelet").display()));
        command.args([&format!("--hostname-override={NODE}"), "--node-ip=10.240.0.10"]);
        Agent(command.stdin(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// Starts the agent, whose pods get addresses once its node is registered.
    fn node(&self, more: &Value) -> Agent {
        let agent = self.agent(more);
        wait_until("the node is registered", || self.get(&["node", NODE]).is_some());
        // A controller manager assigns some itself.
        let _ = yardstick::assign_pod_cidrs(&self.testbed, NODE, &["10.244.9.0/24"]);
        agent
    }

    fn get(&self, what: &[&str]) -> Option<Value> {
        let output =
            self.testbed.command("kubectl").arg("get").args(what).args(["-o", "json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    fn apply(&self, pod: &Value) {
        yardstick::apply(&self.testbed, &pod.to_string()).unwrap();
    }

    /// The UID of the pod, once it runs.
    fn running(&self, pod: &str) -> String {
        wait_for(&format!("pod {pod} runs"), || {
            let found = self.get(&["pod", pod]).filter(|found| found["status"]["phase"] == "Running")?;
            Some(found["metadata"]["uid"].as_str()?.to_owned())
        })
    }

    fn delete(&self, pod: &str) {
        let deleted = self.testbed.command("kubectl").args(["delete", "pod", pod, "--timeout=60s"]).status();
        assert!(deleted.unwrap().success());
    }

    /// The limits of a cgroup.
    fn limits(&self, cgroup: &str) -> BTreeMap<&'static str, String> {
        let dirs = self.dirs(cgroup);
        let value = |name: &&'static str| {
            let found = dirs.iter().find_map(|dir| std::fs::read_to_string(dir.join(name)).ok())?;
            Some((*name, found.trim().to_owned()))
        };
        FILES.iter().filter_map(value).collect()
    }

    /// Waits until a cgroup of ours has the limits of the kubelet's, which sets those of its classes every minute.
    fn await_the_same(&self, ours: &str, theirs: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (have, want) = (self.limits(ours), self.limits(theirs));
            if have == want {
                return;
            }
            assert!(Instant::now() < deadline, "{ours} has {have:?}, the kubelet's {theirs} has {want:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn exists(&self, cgroup: &str) -> bool {
        self.dirs(cgroup).iter().any(|dir| dir.exists())
    }

    /// The UID of the first pod that has a cgroup in a class of the agent.
    fn first_pod(&self, class: &str) -> Option<String> {
        let entries = std::fs::read_dir(self.dirs(class).first()?).ok()?.flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("pod").map(str::to_owned)).next()
    }
}

/// A pod of each QoS class and one of whose containers not all have limits, with the class's cgroup.
fn pods() -> [(&'static str, &'static str, Vec<Value>); 4] {
    let both = json!({"cpu": "150m", "memory": "64Mi"});
    [
        ("full", "", vec![json!({"limits": both}), json!({"limits": both, "requests": both})]),
        ("some", "/burstable", vec![json!({"requests": {"cpu": "230m"}, "limits": {"memory": "64Mi"}})]),
        ("part", "/burstable", vec![json!({"limits": both}), json!({"requests": {"cpu": "3m"}})]),
        ("none", "/besteffort", vec![json!({})]),
    ]
}

fn pod(name: &str, node: &str, image: &str, resources: &[Value]) -> Value {
    let container = |(index, resources): (usize, &Value)| {
        json!({
            "name": format!("c{index}"), "image": image, "imagePullPolicy": "Never", "resources": resources,
            "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"],
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
            "enableServiceLinks": false, "hostNetwork": true,
            "containers": resources.iter().enumerate().map(container).collect::<Vec<_>>(),
        },
    })
}

#[test]
fn the_cgroups_of_pods_have_the_names_and_limits_that_a_kubelet_gives_them() {
    let cluster = Cluster::start(Parts::of(&[Part::Kubelet]));
    cluster.make_root();
    // The kubelet of the testbed has no limit of processes either.
    let _agent = cluster.node(&json!({"podPidsLimit": -1}));
    wait_until("the node is there", || cluster.get(&["node", NODE]).is_some());
    for (name, _, resources) in pods() {
        cluster.apply(&pod(&format!("theirs-{name}"), KUBELET, images::BUSYBOX, &resources));
        cluster.apply(&pod(&format!("ours-{name}"), NODE, IMAGE, &resources));
    }
    for (name, class, _) in pods() {
        let [theirs, ours] = ["theirs", "ours"].map(|of| cluster.running(&format!("{of}-{name}")));
        let theirs = format!("/kubepods{class}/pod{theirs}");
        assert!(cluster.limits(&theirs).len() > 3, "{:?}", cluster.limits(&theirs));
        cluster.await_the_same(&format!("/{ROOT}/kubepods{class}/pod{ours}"), &theirs);
    }
    for class in ["", "/burstable", "/besteffort"] {
        cluster.await_the_same(&format!("/{ROOT}/kubepods{class}"), &format!("/kubepods{class}"));
    }
    // The containers are inside.
    let uid = cluster.running("ours-full");
    let processes = cluster.dirs(&format!("/{ROOT}/kubepods/pod{uid}")).iter().map(|dir| inside(dir)).max();
    assert_eq!(processes, Some(2));

    // A pod that is gone no longer counts, and its cgroup is gone.
    let uid = cluster.running("ours-part");
    let burstable = format!("/{ROOT}/kubepods/burstable");
    let before = cluster.limits(&burstable);
    ["theirs", "ours"].into_iter().for_each(|of| cluster.delete(&format!("{of}-part")));
    assert!(!cluster.exists(&format!("/{ROOT}/kubepods/burstable/pod{uid}")));
    assert_ne!(cluster.limits(&burstable), before);
    cluster.await_the_same(&burstable, "/kubepods/burstable");
    ["ours-full", "ours-some", "ours-none"].into_iter().for_each(|name| cluster.delete(name));
}

/// The number of containers with a process in this cgroup.
fn inside(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let processes = |entry: &std::fs::DirEntry| {
        std::fs::read_to_string(entry.path().join("cgroup.procs")).unwrap_or_default()
    };
    entries.filter(|entry| !processes(entry).is_empty()).count()
}

/// A process in a pod's cgroup that no container knows.
fn orphan(cluster: &Cluster, cgroup: &str) -> Agent {
    let child = Command::new("sleep").arg("1000").spawn().unwrap();
    let orphan = Agent(child);
    for dir in cluster.dirs(cgroup) {
        let below = dir.join("orphan");
        std::fs::create_dir(&below).unwrap();
        // A cpuset of version 1 takes no process before it has CPUs.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(value) = std::fs::read_to_string(dir.join(file))
                && below.join("tasks").exists()
            {
                std::fs::write(below.join(file), value).unwrap();
            }
        }
        std::fs::write(below.join("cgroup.procs"), orphan.0.id().to_string()).unwrap();
    }
    orphan
}

fn is_killed(orphan: &mut Agent) -> bool {
    orphan.0.try_wait().unwrap().is_some()
}

#[test]
fn nothing_of_a_pods_cgroup_outlives_the_pod_or_the_agent_that_made_it() {
    let cluster = Cluster::start(Parts::control_plane());
    cluster.make_root();
    let besteffort = format!("/{ROOT}/kubepods/besteffort");
    let agent = cluster.node(&json!({}));
    wait_until("the node is there", || cluster.get(&["node", NODE]).is_some());

    // A process that is left in the cgroup is killed with the pod.
    cluster.apply(&pod("one", NODE, IMAGE, &[json!({})]));
    let cgroup = format!("{besteffort}/pod{}", cluster.running("one"));
    let mut left = orphan(&cluster, &cgroup);
    assert!(!is_killed(&mut left));
    cluster.delete("one");
    assert!(is_killed(&mut left) && !cluster.exists(&cgroup));

    // So it is when the pod ends by itself; the pod stays in the API.
    let mut ends = pod("ends", NODE, IMAGE, &[json!({})]);
    ends["spec"]["restartPolicy"] = json!("Never");
    ends["spec"]["volumes"] = json!([{"name": "d", "hostPath": {"path": cluster.dir.path()}}]);
    ends["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "d", "mountPath": "/end-dir"}]);
    ends["spec"]["containers"][0]["command"] =
        json!(["sh", "-c", "while [ ! -e /end-dir/end ]; do sleep 0.1; done"]);
    cluster.apply(&ends);
    let cgroup = format!("{besteffort}/pod{}", cluster.running("ends"));
    let mut left = orphan(&cluster, &cgroup);
    std::fs::write(cluster.dir.path().join("end"), "").unwrap();
    wait_until("the cgroup of the ended pod is gone", || !cluster.exists(&cgroup));
    assert!(is_killed(&mut left));
    cluster.delete("ends");

    // Killed as soon as a pod has its cgroup, at most with a part of the sandbox: the next agent runs the pod, or ends it
    // if it was deleted meanwhile.
    let mut agent = Some(agent);
    for name in ["two", "three", "four"] {
        assert_eq!(cluster.first_pod(&besteffort), None);
        cluster.apply(&pod(name, NODE, IMAGE, &[json!({})]));
        let uid = wait_for("the pod has a cgroup", || cluster.first_pod(&besteffort));
        drop(agent.take());
        if name == "three" {
            let deleted = ["delete", "pod", name, "--wait=false", "--force"];
            assert!(cluster.testbed.command("kubectl").args(deleted).status().unwrap().success());
        }
        agent = Some(cluster.node(&json!({})));
        if name != "three" {
            assert_eq!(cluster.running(name), uid);
            assert!(cluster.exists(&format!("{besteffort}/pod{uid}")));
            cluster.delete(name);
        }
        wait_until("its cgroup is gone", || !cluster.exists(&format!("{besteffort}/pod{uid}")));
    }

    // A pod that no source has and whose record is lost: its cgroup goes with the next start. Those of others stay.
    drop(agent.take());
    let (ours, foreign) = ("0aa7a1ce-0000-4000-8000-000000000001", "0aa7a1ce-0000-4000-8000-000000000002");
    let instance = std::fs::read_to_string(cluster.dir.path().join("state/instance")).unwrap();
    let mut orphans = Vec::new();
    for (uid, owner) in [(ours, instance.trim()), (foreign, "another")] {
        let cgroup = format!("{besteffort}/pod{uid}");
        for dir in cluster.dirs(&cgroup) {
            std::fs::create_dir(&dir).unwrap();
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&dir, "trusted.wardlet.instance", owner.as_bytes(), flags).unwrap();
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if let Ok(value) = std::fs::read_to_string(dir.parent().unwrap().join(file)) {
                    let _ = std::fs::write(dir.join(file), value);
                }
            }
        }
        orphans.push(orphan(&cluster, &cgroup));
    }
    let _agent = cluster.node(&json!({}));
    wait_until("the orphan is gone", || !cluster.exists(&format!("{besteffort}/pod{ours}")));
    assert!(is_killed(&mut orphans[0]) && !is_killed(&mut orphans[1]));
    assert!(cluster.exists(&format!("{besteffort}/pod{foreign}")));
}

#[test]
fn an_agent_says_why_it_cannot_make_cgroups() {
    let cluster = Cluster::start(Parts::control_plane());
    let said = |more: Value| {
        let log = cluster.dir.path().join("log");
        let _ = std::fs::remove_file(&log);
        let mut agent = cluster.agent(&more);
        assert_eq!(agent.0.wait().unwrap().code(), Some(2));
        std::fs::read_to_string(log).unwrap()
    };
    let text = said(json!({}));
    assert!(text.contains("cgroup /agent for the pods of this node does not exist"), "{text}");
    cluster.make_root();
    let is_v1 = !Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    if is_v1 {
        let text = said(json!({"failCgroupV1": true}));
        assert!(text.contains("cgroup v1") && text.contains("set failCgroupV1 to false"), "{text}");
    }
    assert!(cluster.get(&["node", NODE]).is_none(), "it is refused before it registers the node");
}
