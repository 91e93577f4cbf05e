//! `wardlet verify` on a node where three engines create and delete pods all the time: kubelet with containerd, podman, and
//! `wardlet run`. No state that a pod passes through on its way up or down may be reported as a violation.
//!
//! `WARDLET_ROUNDS` is the number of rounds: 2 with a few pods where it is not set; from 30 on there are 60 pods of the
//! kubelet and 40 of podman beside 20 of our own. A round is one run of `verify` while every engine replaces a part of its
//! pods. The first report with a violation of one of these pods fails the test. That report, and what /proc shows of every
//! process that it names or that is in a user namespace, is kept in the directory that the failure names.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testbed::images::BUSYBOX;
use testbed::{Part, Parts, Testbed};

/// The image that `benches/pods/podman.sh` imports.
const PODMANS_IMAGE: &str = "localhost/wardlet-bench:1";

/// How long the pods of one engine may take to come up.
const PATIENCE: Duration = Duration::from_secs(300);

/// From so many rounds on the node is full.
const SOAK: usize = 30;

/// The pool of `wardlet`: neither the kubelet's nor podman's IDs. Two engines that give out the same range without knowing of
/// each other do share IDs sooner or later.
const CONFIG: &str = "userNamespaces: {pool: {uids: [\"3221225472-3288334335\"]}}\n";

/// How much happens.
struct Load {
    rounds: usize,
    kubelet: Share,
    podman: Share,
    wardlet: Share,
}

/// What one engine has to do.
struct Share {
    /// Pods that are there at any time.
    pods: u32,
    /// Pods that a round replaces.
    replaced: u32,
}

impl Load {
    fn from_environment() -> Self {
        let rounds = std::env::var("WARDLET_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
        let share = |pods, replaced| Share { pods, replaced };
        if rounds >= SOAK {
            Self { rounds, kubelet: share(60, 6), podman: share(40, 4), wardlet: share(20, 2) }
        } else {
            Self { rounds, kubelet: share(3, 1), podman: share(2, 1), wardlet: share(2, 1) }
        }
    }
}

/// Numbers by which the pods' processes are known from outside: each sleeps for as many seconds.
fn marks(count: u32) -> Range<u32> {
    static NEXT: AtomicU32 = AtomicU32::new(600_000_000);
    let first = NEXT.fetch_add(count, Ordering::Relaxed);
    first..first + count
}

fn running() -> BTreeSet<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mark = |pid: u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let rest = words.strip_prefix(b"/bin/busybox\0sleep\0")?;
        std::str::from_utf8(rest.strip_suffix(b"\0")?).ok()?.parse().ok()
    };
    pids.filter_map(mark).collect()
}

#[track_caller]
fn until_all_run(marks: &Range<u32>) {
    let began = Instant::now();
    let expected: BTreeSet<u32> = marks.clone().collect();
    loop {
        let missing: BTreeSet<u32> = expected.difference(&running()).copied().collect();
        if missing.is_empty() {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "these pods do not run after {PATIENCE:?}: {missing:?}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn pod(mark: u32, image: &str) -> String {
    // podman makes one volume for all emptyDirs of a name, whichever pod has them.
    let volume = format!("scratch-{mark}");
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("beside-{mark}")},
        "spec": {
            "hostUsers": false,
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main", "image": image, "imagePullPolicy": "Never",
                "command": ["/bin/busybox", "sleep", mark.to_string()],
                "volumeMounts": [{"name": volume, "mountPath": "/scratch"}],
            }],
            "volumes": [{"name": volume, "emptyDir": {}}],
        },
    })
    .to_string()
}

fn manifest(marks: &Range<u32>, image: &str) -> String {
    marks.clone().map(|mark| pod(mark, image)).collect::<Vec<_>>().join("\n---\n")
}

#[track_caller]
fn succeeds(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// An engine whose pods can be replaced while others look.
trait Engine: Send {
    /// Deletes as many of the oldest pods as `marks` are, and creates new ones for these; returns when they run.
    fn replace(&mut self, marks: Range<u32>);
}

/// Static pods of the testbed's kubelet.
struct Kubelet<'a> {
    testbed: &'a Testbed,
    files: VecDeque<PathBuf>,
}

impl Kubelet<'_> {
    fn create(&mut self, marks: Range<u32>) {
        let data = &self.testbed.record().places.data;
        for mark in marks.clone() {
            // Renamed into the directory: the kubelet never reads half a file.
            let (next, file) = (data.join("pod.next"), data.join(format!("manifests/{mark}.json")));
            fs::write(&next, pod(mark, BUSYBOX)).unwrap();
            fs::rename(&next, &file).unwrap();
            self.files.push_back(file);
        }
        until_all_run(&marks);
    }
}

impl Engine for Kubelet<'_> {
    fn replace(&mut self, marks: Range<u32>) {
        self.files.drain(..marks.len()).for_each(|oldest| fs::remove_file(oldest).unwrap());
        self.create(marks);
    }
}

/// `podman kube play`, driven by the script of the benchmarks.
struct Podman<'a> {
    testbed: &'a Testbed,
    home: &'a Path,
    batches: VecDeque<PathBuf>,
}

impl<'a> Podman<'a> {
    fn new(testbed: &'a Testbed, home: &'a Path) -> Self {
        let podman = Self { testbed, home, batches: VecDeque::new() };
        podman.script("usable", home);
        podman
    }

    fn script(&self, verb: &str, manifest: &Path) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/pods/podman.sh");
        let mut command = self.testbed.command(script);
        succeeds(command.arg(verb).arg(manifest).env("WARDLET_BENCH_PODMAN", self.home.join("podman")));
    }

    fn create(&mut self, marks: Range<u32>) {
        let file = self.home.join(format!("podman-{}.yaml", marks.start));
        fs::write(&file, manifest(&marks, PODMANS_IMAGE)).unwrap();
        self.script("start", &file);
        until_all_run(&marks);
        self.batches.push_back(file);
    }
}

impl Engine for Podman<'_> {
    fn replace(&mut self, marks: Range<u32>) {
        let oldest = self.batches.pop_front().unwrap();
        self.script("stop", &oldest);
        self.create(marks);
    }
}

impl Drop for Podman<'_> {
    fn drop(&mut self) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/pods/podman.sh");
        let mut command = self.testbed.command(script);
        // What it leaves goes with the testbed.
        let _ =
            command.args(["leave", "none"]).env("WARDLET_BENCH_PODMAN", self.home.join("podman")).output();
    }
}

/// `wardlet run` with the built-in runtime; pods that come and go use the runtime of the first process.
struct Wardlet<'a> {
    testbed: &'a Testbed,
    home: &'a Path,
    runs: VecDeque<Child>,
}

fn command(testbed: &Testbed, home: &Path) -> Command {
    let mut command = testbed.command(env!("CARGO_BIN_EXE_wardlet"));
    command.arg("--config").arg(home.join("config.yaml")).arg("--state-dir").arg(home.join("state"));
    command
}

/// In the testbed's own /run.
const SOCKETS: &str = "/run/wardlet";

impl<'a> Wardlet<'a> {
    fn new(testbed: &'a Testbed, home: &'a Path) -> Self {
        let wardlet = Self { testbed, home, runs: VecDeque::new() };
        fs::write(home.join("config.yaml"), CONFIG).unwrap();
        for entry in fs::read_dir(testbed::images::made().expect("images").join("archives")).unwrap() {
            succeeds(wardlet.command().args(["image", "import"]).arg(entry.unwrap().path()));
        }
        wardlet
    }

    fn command(&self) -> Command {
        command(self.testbed, self.home)
    }

    fn run(&self, marks: &Range<u32>) -> Child {
        let file = self.home.join(format!("wardlet-{}.yaml", marks.start));
        fs::write(&file, manifest(marks, BUSYBOX)).unwrap();
        let monitor = testbed::own::program("wardlet-monitor").expect("wardlet-monitor");
        let log = fs::File::create(file.with_extension("log")).unwrap();
        let mut command = self.command();
        command.args(["run", "--quiet", "--run-dir", SOCKETS, "--programs"]).arg(monitor.parent().unwrap());
        if !self.runs.is_empty() {
            command.args(["--runtime-endpoint", &format!("unix://{SOCKETS}/cri.sock")]);
        }
        let child = command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        until_all_run(marks);
        child
    }

    fn create(&mut self, marks: Range<u32>) {
        let child = self.run(&marks);
        self.runs.push_back(child);
    }

    fn end(mut child: Child) {
        // It has ended already, or ends now.
        let _ = kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT);
        let _ = child.wait();
    }
}

impl Engine for Wardlet<'_> {
    fn replace(&mut self, marks: Range<u32>) {
        // The first one is the runtime of the others.
        if self.runs.len() > 1 {
            Self::end(self.runs.remove(1).unwrap());
        }
        self.create(marks);
    }
}

impl Drop for Wardlet<'_> {
    fn drop(&mut self) {
        while let Some(child) = self.runs.pop_back() {
            Self::end(child);
        }
    }
}

/// What `verify` came to so far.
#[derive(Debug, Default)]
struct Seen {
    reports: usize,
    /// Reports of something that could not be looked at, mostly because it ended meanwhile.
    unknown: usize,
    /// Most pods of this test that one report calls isolated.
    isolated: usize,
}

impl Seen {
    /// One run of `verify`, which fails the test if it reports a violation of a pod of this test. Pods of others on the
    /// machine do not count.
    fn verify(&mut self, command: &mut Command) {
        let output = command.args(["verify", "-o", "json"]).output().unwrap();
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        let pods: Vec<&Value> =
            report["pods"].as_array().unwrap().iter().filter(|pod| is_of_test(pod)).collect();
        let isolated = pods.iter().filter(|pod| pod["verdict"] == "isolated").count();
        self.reports += 1;
        self.unknown += usize::from(report["verdict"] == "unknown");
        self.isolated = self.isolated.max(isolated);
        let touches = |violation: &&Value| {
            // The ledger is that of this test.
            violation["what"] == "leaseWithoutPod"
                || violation["pods"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|uid| pods.iter().any(|pod| pod["uid"] == *uid))
        };
        let violations: Vec<&Value> =
            report["violations"].as_array().unwrap().iter().filter(touches).collect();
        if !violations.is_empty() {
            let kept = keep(&report);
            panic!("verify reports violations ({self:?}); kept in {}: {violations:#?}", kept.display());
        }
    }
}

/// A pod of podman has no name that `verify` knows.
fn is_of_test(pod: &Value) -> bool {
    pod["knownBy"] == "podman" || pod["name"].as_str().is_some_and(|name| name.starts_with("beside-"))
}

/// Keeps the report and the processes that it may speak of.
fn keep(report: &Value) -> PathBuf {
    let kept =
        tempfile::Builder::new().prefix("wardlet-verify-beside-").tempdir_in("/var/tmp").unwrap().keep();
    fs::write(kept.join("report.json"), format!("{report:#}\n")).unwrap();
    let named: BTreeSet<u64> =
        report["violations"].as_array().unwrap().iter().filter_map(|v| v["pid"].as_u64()).collect();
    let hosts = fs::read_link("/proc/2/ns/user").ok();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok()) else {
            continue;
        };
        let users = fs::read_link(entry.path().join("ns/user")).ok();
        if named.contains(&pid) || users != hosts {
            fs::write(kept.join(format!("process-{pid}")), shown(&entry.path())).unwrap();
        }
    }
    kept
}

/// What /proc shows of a process, as far as it is still there.
fn shown(dir: &Path) -> String {
    let mut text = String::new();
    for name in ["cmdline", "status", "cgroup", "uid_map", "gid_map", "mountinfo"] {
        let content = fs::read(dir.join(name)).unwrap_or_default();
        let content = String::from_utf8_lossy(&content).replace('\0', " ");
        writeln!(text, "== {name}\n{content}").unwrap();
    }
    for entry in fs::read_dir(dir.join("ns")).into_iter().flatten().flatten() {
        let link = fs::read_link(entry.path()).unwrap_or_default();
        writeln!(text, "{} {}", entry.file_name().display(), link.display()).unwrap();
    }
    text
}

#[test]
fn pods_that_other_engines_create_and_delete_meanwhile_are_no_violations() {
    let load = Load::from_environment();
    let testbed = Testbed::start(Parts::of(&[Part::Kubelet])).expect("a kubelet (testbed install node)");
    let home = tempfile::Builder::new().prefix("wvb").tempdir_in("/var/tmp").unwrap();
    let mut wardlet = Wardlet::new(&testbed, home.path());
    let mut kubelet = Kubelet { testbed: &testbed, files: VecDeque::new() };
    let mut podman = Podman::new(&testbed, home.path());
    wardlet.create(marks(load.wardlet.pods));
    kubelet.create(marks(load.kubelet.pods));
    for _ in 0..load.podman.pods / load.podman.replaced {
        podman.create(marks(load.podman.replaced));
    }
    let mut seen = Seen::default();
    seen.verify(&mut command(&testbed, home.path()));
    let all = usize::try_from(load.kubelet.pods + load.podman.pods + load.wardlet.pods).unwrap();
    assert_eq!(seen.isolated, all, "isolated pods, before any is replaced");
    // A kubelet with a root directory of its own: seen from outside, its records are where only it has them.
    let mut outside = Command::new(env!("CARGO_BIN_EXE_wardlet"));
    outside
        .arg("--config")
        .arg(home.path().join("config.yaml"))
        .arg("--state-dir")
        .arg(home.path().join("state"));
    seen.verify(&mut outside);
    for round in 0..load.rounds {
        let engines: [(&mut dyn Engine, &Share); 3] =
            [(&mut kubelet, &load.kubelet), (&mut podman, &load.podman), (&mut wardlet, &load.wardlet)];
        thread::scope(|scope| {
            for (engine, share) in engines {
                let marks = marks(share.replaced);
                scope.spawn(move || engine.replace(marks));
            }
            seen.verify(&mut command(&testbed, home.path()));
        });
        println!("round {round}: {seen:?}");
    }
}
