//! Everybody killed in turn while twenty pods start, run and stop: all comes to its end, and nothing is left.

use crate::run_support;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use run_support::{Node, text};
use rustix::process::{Pid, Signal, kill_process};
use testbed::Part;

/// Processes of `run`, each with pods of its own.
const GROUPS: usize = 4;
const PODS: usize = 5;

fn rounds() -> usize {
    std::env::var("WARDLET_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10).min(200)
}

/// Numbers that follow from a seed, which is printed.
struct Dice(u64);

impl Dice {
    fn thrown() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = std::env::var("WARDLET_SEED").ok().and_then(|n| n.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(now.subsec_nanos()));
        println!("WARDLET_SEED={seed}");
        Self(seed | 1)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end.max(1)).unwrap()).unwrap()
    }
}

/// A pod that ends when it is asked to, and needs nothing meanwhile.
fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  hostUsers: false\n  \
         terminationGracePeriodSeconds: 2\n  volumes: [{{name: scratch, emptyDir: {{}}}}]\n  containers:\n  \
         - name: app\n    image: IMAGE\n    command: [sh, -c, \"trap 'exit 0' TERM; sleep 100000 & wait\"]\n    \
         volumeMounts: [{{name: scratch, mountPath: /scratch}}]\n---\n"
    )
}

/// Some pods and the process that looks after them, started again whenever it has ended.
struct Group {
    file: PathBuf,
    child: Option<Child>,
}

impl Group {
    fn new(node: &Node, number: usize) -> Self {
        let pods: String = (0..PODS).map(|n| pod(&format!("pod-{number}-{n}"))).collect();
        Self { file: node.manifest(&format!("group-{number}.yaml"), &pods), child: None }
    }

    fn start(&mut self, node: &Node) {
        let log =
            std::fs::File::options().create(true).append(true).open(self.file.with_extension("log")).unwrap();
        let mut command = node.run(&[self.file.to_str().unwrap(), "--quiet"]);
        self.child = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    /// Starts it again if it has ended: killed, or told to end.
    fn keep(&mut self, node: &Node) {
        let has_ended = self.child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some());
        if has_ended {
            self.start(node);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            let _ = kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal);
        }
    }

    fn end(&mut self) {
        self.signal(Signal::INT);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    fn said(&self) -> String {
        let text = std::fs::read_to_string(self.file.with_extension("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What can be killed besides the processes of `run`, by what their programs are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Run,
    Monitor,
    Helper,
    Shim,
    Containerd,
}

/// Processes of this program that belong to the testbed: they have its mount namespace, or its directories in
/// their arguments.
fn processes(node: &Node, program: &str) -> Vec<i32> {
    let inside = node.testbed.supervisor().unwrap().pid;
    let link = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let network = link(&inside.to_string());
    let ours = node.path("");
    let is_ours = |pid: &str| {
        let arguments = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
        let near = ours.to_str().unwrap().trim_end_matches('/');
        link(pid) == network || arguments.contains(near) || environment.contains(near)
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    let is_called = |pid: &i32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        // The kernel keeps fifteen letters.
        name.trim_end() == program.chars().take(15).collect::<String>()
    };
    pids.filter(is_called).filter(|pid| is_ours(&pid.to_string())).collect()
}

struct Chaos {
    node: Node,
    groups: Vec<Group>,
    dice: Dice,
    victims: &'static [Victim],
    kills: Vec<Victim>,
}

impl Chaos {
    fn new(node: Node, victims: &'static [Victim]) -> Self {
        let groups = (0..GROUPS).map(|n| Group::new(&node, n)).collect();
        Self { node, groups, dice: Dice::thrown(), victims, kills: Vec::new() }
    }

    fn pause(&mut self, most: usize) {
        std::thread::sleep(Duration::from_millis(u64::try_from(self.dice.below(most)).unwrap()));
    }

    /// One of those whose turn it is, if there is one now: helpers are there for a moment only.
    fn kill(&mut self, victim: Victim) {
        if victim == Victim::Run {
            let which = self.dice.below(GROUPS);
            self.groups[which].signal(Signal::KILL);
            self.kills.push(victim);
            return;
        }
        let program = match victim {
            Victim::Monitor => "wardlet-monitor",
            Victim::Helper => "wardlet-container",
            Victim::Shim => "containerd-shim-runc-v2",
            _ => "containerd",
        };
        for _ in 0..300 {
            let found = processes(&self.node, program);
            if !found.is_empty() {
                let pid = found[self.dice.below(found.len())];
                let killed = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
                self.kills.extend(killed.is_ok().then_some(victim));
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if victim == Victim::Containerd {
            self.bring_containerd_back();
        }
    }

    /// It may not come at the first attempt: shims of the one before are still at work.
    fn bring_containerd_back(&mut self) {
        let mut failed = None;
        for _ in 0..20 {
            match self.node.testbed.restart(Part::Containerd) {
                Ok(()) => return,
                Err(error) => failed = Some(error),
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        panic!("containerd does not come back: {failed:?}");
    }

    /// Somebody dies, and one group is ended and comes again, while the others start, run or stop.
    fn round(&mut self, number: usize) {
        self.groups.iter_mut().for_each(|group| group.keep(&self.node));
        self.pause(700);
        let ends = self.dice.below(GROUPS);
        self.groups[ends].signal(Signal::TERM);
        self.pause(300);
        self.kill(self.victims[number % self.victims.len()]);
        self.no_block_has_two_pods();
    }

    fn no_block_has_two_pods(&self) {
        let pods = self.node.json(&["ps"]);
        let mut seen = BTreeSet::new();
        for pod in pods.as_array().unwrap() {
            for line in pod["uidMappings"].as_array().unwrap() {
                assert!(seen.insert(line["hostId"].as_u64().unwrap()), "two pods on one block: {pods}");
            }
        }
    }

    fn all_run(&mut self) -> bool {
        self.groups.iter_mut().for_each(|group| group.keep(&self.node));
        let pods = self.node.json(&["ps"]);
        let runs = |pod: &&serde_json::Value| pod["phase"] == "Running" && pod["tended"] == true;
        pods.as_array().unwrap().iter().filter(runs).count() == GROUPS * PODS
    }

    fn come_to_rest(&mut self) {
        for _ in 0..600 {
            if self.all_run() {
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let said: String = self.groups.iter().map(Group::said).collect::<Vec<_>>().join("\n---\n");
        panic!("not all pods run again: {}\n{said}", self.node.json(&["ps"]));
    }

    fn go(mut self) {
        let before = Traces::of(&self.node);
        for number in 0..rounds() {
            self.round(number);
        }
        println!("killed: {:?}", self.kills);
        for victim in self.victims {
            assert!(
                self.kills.contains(victim) || rounds() < 5,
                "{victim:?} was never killed: {:?}",
                self.kills
            );
        }
        self.come_to_rest();
        self.no_block_has_two_pods();
        // All at once, and one of them dies over it.
        self.groups.iter().for_each(|group| group.signal(Signal::INT));
        self.pause(300);
        self.groups[0].signal(Signal::KILL);
        self.groups.iter_mut().for_each(Group::end);
        let places = self.node.places();
        let words: Vec<&str> =
            ["stop", "--all"].into_iter().chain(places.iter().map(String::as_str)).collect();
        let stop = self.node.command(&words).output().unwrap();
        let said: String = self.groups.iter().map(Group::said).collect::<Vec<_>>().join("\n---\n");
        assert!(stop.status.success(), "{}\n{said}", text(&stop));
        assert_eq!(self.node.leftovers(), Vec::<String>::new(), "{}\n{said}", text(&stop));
        let mut after = Traces::of(&self.node);
        // The kernel takes namespaces and their devices away in its own time.
        for _ in 0..100 {
            if after == before {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            after = Traces::of(&self.node);
        }
        assert_eq!(after, before, "{said}");
        what_containerd_has_lost_keeps_its_block(&self.node);
    }
}

/// A containerd that was killed while it made a sandbox forgets it, and its shim and first process stay for good.
/// Nobody can end them but their operator; but nobody else is given their block.
fn what_containerd_has_lost_keeps_its_block(node: &Node) {
    let script = "find /sys/fs/cgroup -path '*/k8s.io/*' -name cgroup.procs -exec cat {} + | sort -u";
    let output = node.testbed.command("sh").args(["-c", script]).output().unwrap();
    let leases = node.json(&["ids", "list"]);
    let lines = leases.as_array().unwrap().iter().flat_map(|lease| lease["uidMappings"].as_array().unwrap());
    let kept: BTreeSet<u64> = lines.map(|line| line["hostId"].as_u64().unwrap()).collect();
    for pid in String::from_utf8_lossy(&output.stdout).lines() {
        let map = std::fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap_or_default();
        let Some(base) = map.split_whitespace().nth(1).and_then(|base| base.parse().ok()) else { continue };
        println!("containerd has lost process {pid}, which has host IDs from {base}");
        assert!(base == 0 || kept.contains(&base), "a block in use is free: {base}: {leases}");
    }
}

/// What pods could leave besides what they all leave.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    devices: BTreeSet<String>,
    networks: BTreeSet<String>,
    groups: BTreeSet<String>,
    processes: BTreeSet<i32>,
    pins: BTreeSet<String>,
}

impl Traces {
    fn of(node: &Node) -> Self {
        let lines = |script: &str| -> BTreeSet<String> {
            let output = node.testbed.command("sh").args(["-c", script]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
        };
        let programs = ["wardlet", "wardlet-monitor", "wardlet-container"];
        let instance = node::Instance::of(&node.path("state"));
        let (bridge, cgroup) = (instance.bridge(), instance.cgroup());
        Self {
            // The bridge stays, for the next pod.
            devices: lines(&format!(
                "cut -s -d: -f1 /proc/net/dev | tr -d ' ' | grep -v -e {bridge} -e cni0"
            )),
            networks: lines("ls /run/netns /var/run/netns 2>/dev/null | grep -v :"),
            // A version 1 host has one for each controller.
            groups: lines(&format!("find /sys/fs/cgroup -mindepth 2 -type d -path '*{cgroup}/*'")),
            processes: programs.iter().flat_map(|program| processes(node, program)).collect(),
            pins: lines(&format!(
                "find {}/userns {}/sandboxes -mindepth 1 2>/dev/null",
                node.run_dir().display(),
                node.run_dir().display()
            )),
        }
    }
}

#[test]
fn twenty_pods_come_to_their_end_on_containerd_while_everybody_is_killed() {
    Chaos::new(Node::new(), &[Victim::Run, Victim::Shim, Victim::Containerd]).go();
}

#[test]
fn twenty_pods_come_to_their_end_on_the_built_in_runtime_while_everybody_is_killed() {
    Chaos::new(Node::built_in(), &[Victim::Run, Victim::Monitor, Victim::Helper]).go();
}
