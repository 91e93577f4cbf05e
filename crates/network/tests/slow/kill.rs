//! Killed at system call N, N swept over a pod's set-up and teardown. Needs root and strace.
//!
//! The run is recorded once; then it is repeated for every call that changes something, and killed at its
//! entry. Calls that only look are left out: killed there, it leaves what it leaves at the next call that
//! changes something. strace counts the calls of each thread on its own, so that the Nth call of one thread
//! hides that of another: therefore the run is also slowed down at each such call and killed at times that
//! are spread over all of it. What is left is then set up again, torn down, or recovered by ID alone.

use crate::support;

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use network::{Kind, Protocol};
use support::*;
use testkit::Call;

/// The program.
fn actor() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| testkit::example("network_actor", env!("CARGO_MANIFEST_DIR")))
}

/// Calls that change something that outlives the process: files and what netlink is told.
const CHANGES: &[&str] = &[
    "sendto",
    "write",
    "fsync",
    "fdatasync",
    "link",
    "linkat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "openat",
    "ftruncate",
    "flock",
    "setns",
];

struct Scene {
    lab: Lab,
    ward: Ward,
    kind: String,
}

impl Scene {
    fn new() -> Self {
        Self { lab: Lab::new(), ward: Ward::new("actor"), kind: "bridge".to_owned() }
    }

    /// A scene where this was done before.
    fn after(what: &[&str]) -> Self {
        let scene = Self::new();
        what.iter().for_each(|what| scene.act(what));
        scene
    }

    fn arguments(&self, what: &str) -> Vec<String> {
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let (state, netns) = (path(self.lab.dir.path()), path(&self.ward.pod.netns));
        vec![state, self.kind.clone(), self.ward.pod.id.clone(), netns, what.to_owned()]
    }

    fn act(&self, what: &str) {
        let done = self.lab.at_host(|| Command::new(actor()).args(self.arguments(what)).output().unwrap());
        assert!(done.status.success(), "{what}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn traced(&self, options: &[impl AsRef<OsStr>], what: &str) -> Output {
        let mut command = testkit::strace();
        command.args(options).arg(actor()).args(self.arguments(what));
        self.lab.at_host(move || command.output()).unwrap()
    }

    /// All is as it is after a set-up that nobody interrupted.
    fn is_set_up(&self) {
        let address = at(&self.ward.ns, || ip("-4 -o addr show dev eth0"));
        let address = address.split_whitespace().nth(3).unwrap().split('/').next().unwrap().to_owned();
        let server = listen(&self.ward.ns, "0.0.0.0:80");
        talk(&self.lab.host, &server, &format!("{address}:80"));
        talk(&self.lab.outside, &server, &format!("{HOST}:8080"));
        talk(&self.ward.ns, &server, &format!("{HOST}:8080"));
        let server = listen_udp(&self.ward.ns, "0.0.0.0:80");
        talk_udp(&self.lab.outside, &server, &format!("{HOST}:8080"));
        let outside = listen(&self.lab.outside, "0.0.0.0:80");
        talk(&self.ward.ns, &outside, &format!("{OUTSIDE}:80"));
        assert_eq!(self.lab.devices().len(), 4, "one pair");
        assert_eq!(self.lab.lease_files(), 1);
    }

    fn is_gone(&self) {
        assert_eq!(self.lab.devices(), ["lo", "up0", "wardlet0"]);
        assert_eq!(devices(&self.ward.ns), ["lo"]);
        assert_eq!(self.lab.lease_files(), 0);
        assert_eq!(self.lab.dir.path().join("network/cni").read_dir().unwrap().count(), 0);
        cannot_connect(&self.lab.outside, &format!("{HOST}:8080"));
        // Nobody has the port any more.
        let network = self.lab.open(bridge());
        assert_eq!(self.lab.leases(&network), Vec::<String>::new());
        let next = Ward::new("next").with_port(port(Protocol::Tcp, 8080, 80));
        self.lab.set_up(&network, &next);
        let server = listen(&next.ns, "0.0.0.0:80");
        talk(&self.lab.outside, &server, &format!("{HOST}:8080"));
    }

    fn is_taken_down_by(&self, what: &str) {
        self.act(what);
        self.is_gone();
    }
}

/// Every call of the run that changes something.
fn changes(before: &[&str], what: &str) -> Vec<Call> {
    let scene = Scene::after(before);
    let log = scene.lab.dir.path().join("log");
    let done = scene.traced(&["-o", log.to_str().unwrap()], what);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let trace = std::fs::read_to_string(&log).unwrap();
    testkit::changes_since(&trace, scene.lab.dir.path(), |name| CHANGES.contains(&name))
}

/// Kills the run at every such call, then goes on in one of the ways, in turn; in all of them where more
/// rounds are asked for.
fn sweep(before: &[&str], what: &str, go_on: &[&dyn Fn(&Scene)]) {
    let calls = changes(before, what);
    assert!(calls.len() > 10, "the recording shows too little: {calls:?}");
    let (mut runs, mut killed) = (0, 0);
    for (place, call) in calls.iter().enumerate() {
        let chosen = |way: usize| testkit::rounds() > 1 || way == place % go_on.len();
        for (_, check) in go_on.iter().enumerate().filter(|(way, _)| chosen(*way)) {
            let scene = Scene::after(before);
            let done = scene.traced(&call.kill(), what);
            println!("{what} killed at {call}: {}", !done.status.success());
            runs += 1;
            killed += usize::from(!done.status.success());
            check(&scene);
        }
    }
    println!("{} calls of {what}, killed {killed} times in {runs} runs", calls.len());
    assert!(killed * 10 > runs * 9, "only {killed} of {runs} runs were killed");
}

/// Kills the run, slowed down at each call that changes something, at moments from its beginning to its end.
fn spread(before: &[&str], what: &str, go_on: &[&dyn Fn(&Scene)]) {
    let slow = format!("inject={}:delay_enter=2000", CHANGES.join(","));
    let whole = Scene::after(before);
    let begun = Instant::now();
    assert!(whole.traced(&["-o", "/dev/null", "-e", &slow], what).status.success());
    let length = begun.elapsed();
    let moments = 24 * u32::try_from(testkit::rounds()).unwrap();
    let mut killed = 0;
    for moment in 0..moments {
        let scene = Scene::after(before);
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", &slow]).arg(actor()).args(scene.arguments(what));
        let mut strace =
            scene.lab.at_host(move || command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let program = child_of(strace.id());
        std::thread::sleep(length * moment / moments);
        // Until strace is waited for, nobody else has its number; it ends with the program.
        let _ = program.map(|program| program.signal(rustix::process::Signal::KILL));
        killed += u32::from(!strace.wait().unwrap().success());
        go_on[usize::try_from(moment).unwrap() % go_on.len()](&scene);
    }
    println!("{what}, {length:?} long when slowed down, killed {killed} times in {moments} runs");
    assert!(killed * 2 > moments, "only {killed} of {moments} runs were killed");
}

/// The program that strace has started, unless both have ended. strace has other children before it.
fn child_of(strace: u32) -> Option<kernel::Process> {
    let is_actor =
        |pid: &&str| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == actor());
    loop {
        let children = std::fs::read_to_string(format!("/proc/{strace}/task/{strace}/children")).ok()?;
        if let Some(pid) = children.split_whitespace().find(is_actor) {
            return kernel::Process::open(pid.parse().unwrap()).ok();
        }
        if std::fs::read_to_string(format!("/proc/{strace}/stat")).ok()?.contains(") Z ") {
            return None;
        }
    }
}

fn set_up_again(scene: &Scene) {
    scene.act("set-up");
    scene.is_set_up();
    scene.is_taken_down_by("tear-down");
}

#[test]
fn killed_at_any_call_of_a_set_up() {
    let torn_down = |scene: &Scene| scene.is_taken_down_by("tear-down");
    let recovered = |scene: &Scene| scene.is_taken_down_by("recover");
    sweep(&[], "set-up", &[&set_up_again, &torn_down, &recovered]);
    spread(&[], "set-up", &[&set_up_again, &torn_down, &recovered]);
}

#[test]
fn killed_at_any_call_of_a_teardown() {
    let torn_down = |scene: &Scene| scene.is_taken_down_by("tear-down");
    let recovered = |scene: &Scene| scene.is_taken_down_by("recover");
    sweep(&["set-up"], "tear-down", &[&set_up_again, &torn_down, &recovered]);
    spread(&["set-up"], "tear-down", &[&set_up_again, &torn_down, &recovered]);
}

/// A plugin goes on when the one who ran it is killed. What it does then must not come after it was taken
/// back.
#[test]
fn a_plugin_of_a_server_that_was_killed_is_waited_for() {
    let scene = Scene::new();
    let dir = scene.lab.dir.path();
    let list = r#"{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"slow"}]}"#;
    std::fs::write(dir.join("10-net.conflist"), list).unwrap();
    let script = format!(
        "#!/bin/sh\ncd {}\nif test $CNI_COMMAND = ADD; then touch begun; n=0; while ! test -e go && test $n -lt 1000; do n=$((n+1)); sleep 0.02; done; fi\n\
         echo $CNI_COMMAND >> order\necho '{{\"cniVersion\":\"1.0.0\",\"ips\":[{{\"address\":\"10.3.0.9/24\"}}]}}'\n",
        dir.display()
    );
    std::fs::write(dir.join("slow"), script).unwrap();
    std::fs::set_permissions(dir.join("slow"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let scene = Scene { kind: format!("{0}:{0}", dir.display()), ..scene };
    let dir = scene.lab.dir.path();
    let mut server =
        scene.lab.at_host(|| Command::new(actor()).args(scene.arguments("set-up")).spawn().unwrap());
    while !dir.join("begun").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    server.kill().unwrap();
    server.wait().unwrap();
    let network = scene.lab.open(Kind::Cni { conf_dir: dir.to_owned(), bin_dirs: vec![dir.to_owned()] });
    assert_eq!(scene.lab.leases(&network), [scene.ward.pod.id.as_str()]);
    let id = scene.ward.pod.id.clone();
    let deleting = scene.lab.runtime.spawn(async move { network.tear_down(&id, None).await });
    std::thread::sleep(Duration::from_millis(200));
    assert!(!dir.join("order").exists(), "DEL came before ADD was over");
    std::fs::write(dir.join("go"), "").unwrap();
    scene.lab.runtime.block_on(deleting).unwrap().unwrap();
    assert_eq!(std::fs::read_to_string(dir.join("order")).unwrap(), "ADD\nDEL\n");
    assert_eq!(dir.join("network/cni").read_dir().unwrap().count(), 0);
}
