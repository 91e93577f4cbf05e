//! hostUsers, the switch for user namespaces, and its rollback, down to the uid_map of the pods' processes.

use std::fs;
use std::io::Read;

use testkit::wait_for;

use crate::machine::{Lan, Machine, Running, text};

/// The uid_map of a process with the host's users: every ID is its own.
const HOST_MAP: [u64; 3] = [0, 0, 4_294_967_295];
const OFF: &str = "policy: {disabledFeatures: [UserNamespacesSupport]}\n";

/// A process of a pod, as the host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    pid: u32,
    map: [u64; 3],
}

/// A pod whose process can be found by its command line.
fn pod(home: &str, name: &str, host_users: &str) -> String {
    let script = format!(": {home}/{name}/marked; trap 'exit 0' TERM; while :; do sleep 0.1; done");
    let command = serde_json::json!(["sh", "-c", script]);
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n{host_users}  containers:\n  \
         - {{name: app, image: IMAGE, imagePullPolicy: Never, command: {command}}}\n"
    )
}

struct Node<'a> {
    machine: Machine<'a>,
    /// The configuration without the switch.
    plain: String,
}

impl<'a> Node<'a> {
    fn new(lan: &'a Lan) -> Self {
        let machine = Machine::new(lan);
        let plain = fs::read_to_string(machine.path("node.yaml")).unwrap();
        Self { machine, plain }
    }

    fn configure(&self, more: &str) {
        fs::write(self.machine.path("node.yaml"), format!("{}{more}", self.plain)).unwrap();
    }

    fn manifest(&self, name: &str, host_users: &str) -> String {
        let home = self.machine.home().display().to_string();
        self.machine.manifest(&format!("{name}.yaml"), &pod(&home, name, host_users))
    }

    /// `wardlet run` of these manifests, once all their pods are managed by it and run.
    fn run(&self, files: &[&str], names: &[&str]) -> Running {
        let words: Vec<&str> = ["run", "-q"].into_iter().chain(files.iter().copied()).collect();
        let running = self.machine.start(&words);
        let is_up = |pods: &[serde_json::Value], name: &&str| {
            pods.iter().any(|pod| pod["name"] == **name && pod["phase"] == "Running" && pod["tended"] == true)
        };
        wait_for("the pods run", || {
            let pods = self.machine.pods();
            names.iter().all(|name| is_up(&pods, name)).then_some(())
        });
        running
    }

    /// The first process of the pod's container, found by its command line.
    fn seen(&self, name: &str) -> Option<Seen> {
        let mark = format!("{}/{name}/marked", self.machine.home().display());
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.find_map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            let is_container =
                words.first() == Some(&b"sh".as_slice()) && String::from_utf8_lossy(&line).contains(&mark);
            let map = fs::read_to_string(format!("/proc/{pid}/uid_map")).ok()?;
            let map: Vec<u64> = map.split_whitespace().map(|number| number.parse().unwrap()).collect();
            is_container.then_some(())?;
            Some(Seen { pid, map: map.try_into().ok()? })
        })
    }

    #[track_caller]
    fn process(&self, name: &str) -> Seen {
        wait_for(&format!("a process of {name}"), || self.seen(name))
    }

    /// Kills the pod's process, and returns the one that is restarted.
    #[track_caller]
    fn restarted(&self, name: &str) -> Seen {
        let before = self.process(name);
        let pid = rustix::process::Pid::from_raw(i32::try_from(before.pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        wait_for(&format!("{name} is restarted"), || self.seen(name).filter(|now| now.pid != before.pid))
    }
}

fn is_own(map: [u64; 3]) -> bool {
    map[0] == 0 && map[1] >= 65_536 && map[2] == 65_536
}

#[test]
fn a_switched_off_feature_is_for_new_pods_and_running_pods_keep_their_user_namespace() {
    let lan = Lan::new();
    let node = Node::new(&lan);
    let own = node.manifest("own", "  hostUsers: false\n");
    let host = node.manifest("host", "  hostUsers: true\n");
    let unset = node.manifest("unset", "");
    let (files, names) = ([own.as_str(), &host, &unset], ["own", "host", "unset"]);

    let run = node.run(&files, &names);
    let before = names.map(|name| node.process(name));
    assert!(is_own(before[0].map), "{before:?}");
    assert_eq!([before[1].map, before[2].map], [HOST_MAP; 2]);
    drop(run);

    // Off: a killed and restarted run keeps every process as it is, and restarts containers into what they had.
    node.configure(OFF);
    let run = node.run(&files, &names);
    assert_eq!(names.map(|name| node.process(name)), before);
    assert_eq!(node.restarted("own").map, before[0].map);
    assert_eq!(node.restarted("host").map, HOST_MAP);
    drop(run);

    // Off: a pod that is created runs with the host's users, with a warning and an event.
    let late = node.manifest("late", "  hostUsers: false\n");
    let mut run = node.run(&[&late], &["late"]);
    assert_eq!(node.process("late").map, HOST_MAP);
    run.0.kill().unwrap();
    let mut said = String::new();
    run.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    drop(run);
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("asked for and not isolated: feature gate UserNamespacesSupport is off"),
        "{said}"
    );
    assert!(words.contains("the pod asks for a user namespace and runs without"), "{said}");

    // On again: each pod keeps what it has until it is created anew.
    node.configure("");
    let all = [own.as_str(), &host, &unset, &late];
    let run = node.run(&all, &["own", "host", "unset", "late"]);
    assert_eq!(node.process("late").map, HOST_MAP);
    assert_eq!(node.restarted("late").map, HOST_MAP);
    assert_eq!(node.process("own").map, before[0].map);
    drop(run);
    node.machine.done(&["stop", "late", "--grace", "0"]);
    let run = node.run(&[&late], &["late"]);
    let late_map = node.process("late").map;
    assert!(is_own(late_map) && late_map != before[0].map, "{late_map:?}");
    drop(run);
}

/// With `onClosedGate: refuse`, a pod that is created is refused, and one that runs isolated is adopted all the same.
#[test]
fn a_switch_that_refuses_new_pods_lets_running_ones_be_adopted() {
    let lan = Lan::new();
    let node = Node::new(&lan);
    let own = node.manifest("own", "  hostUsers: false\n");
    let run = node.run(&[&own], &["own"]);
    let before = node.process("own");
    drop(run);
    node.configure("policy: {disabledFeatures: [UserNamespacesSupport], onClosedGate: refuse}\n");
    let run = node.run(&[&own], &["own"]);
    assert_eq!(node.process("own"), before);
    drop(run);
    node.machine.done(&["stop", "own", "--grace", "0"]);
    let output = node.machine.output(&["run", "-q", &own]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("remove UserNamespacesSupport from policy.disabledFeatures"), "{said}");
}

#[test]
fn flags_of_run_set_gates_as_far_as_the_version_allows() {
    let lan = Lan::new();
    let node = Node::new(&lan);
    let own = node.manifest("own", "  hostUsers: false\n");
    let locked = node.machine.output(&["run", "-q", "--feature-gates", "UserNamespacesSupport=false", &own]);
    assert_eq!(locked.status.code(), Some(2), "{}", text(&locked));
    assert!(text(&locked).contains("locked to true"), "{}", text(&locked));
    let flags = ["--kubernetes", "1.35", "--feature-gates", "UserNamespacesSupport=false"];
    let words: Vec<&str> = ["run", "-q"].into_iter().chain(flags).chain([own.as_str()]).collect();
    let run = node.machine.start(&words);
    assert_eq!(node.process("own").map, HOST_MAP);
    drop(run);
}
