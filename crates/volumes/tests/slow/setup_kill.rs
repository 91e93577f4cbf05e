//! Killed at system call N, N swept over set-up, update, parts and teardown. Needs root and strace.
//!
//! The run is recorded once; then it is repeated for every call that changes something, and killed at its
//! entry. Calls that only look are left out: killed there, it leaves what it leaves at the next call that
//! changes something. What is left is then set up again, and torn down; or torn down at once.

use crate::support;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use support::*;
use testkit::Call;

/// The program.
fn actor() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| testkit::example("pod_actor", env!("CARGO_MANIFEST_DIR")))
}

/// Calls that change nothing that outlives the process.
const LOOKS: &[&str] = &[
    "brk",
    "capget",
    "capset",
    "clock_gettime",
    "clone",
    "clone3",
    "close",
    "execve",
    "exit",
    "exit_group",
    "fcntl",
    "fstat",
    "fstatfs",
    "futex",
    "getdents64",
    "getegid",
    "geteuid",
    "getpid",
    "getppid",
    "getrandom",
    "gettid",
    "getuid",
    "lseek",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    "newfstatat",
    "openat2",
    "poll",
    "ppoll",
    "prctl",
    "pread64",
    "prlimit64",
    "read",
    "readlink",
    "readlinkat",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_yield",
    "set_robust_list",
    "set_tid_address",
    "setresuid",
    "sigaltstack",
    "statx",
    "tgkill",
    "wait4",
    "waitid",
    "arch_prctl",
    "access",
    "pidfd_send_signal",
    "fsopen",
    "fsconfig",
];

struct Left {
    node: Node,
}

impl Left {
    /// A node where these words were carried out.
    fn after(words: &[&str]) -> Self {
        let node = Node::new();
        node.dir("srv");
        let left = Self { node };
        left.act(words);
        left
    }

    fn arguments(&self, words: &[&str]) -> Vec<String> {
        let (state, srv) = (self.node.state(), self.node.path("srv"));
        let paths = [state, srv].map(|path| path.to_str().unwrap().to_owned());
        paths.into_iter().chain(words.iter().map(|w| (*w).to_owned())).collect()
    }

    fn act(&self, words: &[&str]) {
        let done = Command::new(actor()).args(self.arguments(words)).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn traced(&self, options: &[impl AsRef<OsStr>], words: &[&str]) -> Output {
        testkit::strace().args(options).arg(actor()).args(self.arguments(words)).output().unwrap()
    }

    fn volume(&self, kind: &str, name: &str) -> PathBuf {
        self.node.state().join(format!("pods/pod/volumes/kubernetes.io~{kind}/{name}"))
    }

    /// All is as it is after a set-up that nobody interrupted.
    fn is_set_up(&self, text: &str) {
        let root = BASE + LENGTH;
        let group = format!("{root}:{} 2777", root + 2000);
        assert_eq!(on_host(&self.volume("empty-dir", "scratch")), group);
        assert_eq!(on_host(&self.volume("empty-dir", "memory")), "0:2000 3777");
        let secret = self.volume("secret", "secret");
        assert_eq!(on_host(&secret), "0:2000 3777");
        assert_eq!(on_host(&secret.join("a")), "0:2000 644");
        for key in ["a", "b"] {
            assert_eq!(std::fs::read_to_string(secret.join(key)).unwrap(), text);
        }
        for made in ["srv/made", "srv/made/deep"] {
            assert_eq!(on_host(&self.node.path(made)), "0:0 755");
        }
        let mut mounts = mounts_below(&self.node.state());
        mounts.retain(|point| !point.to_str().unwrap().contains("volume-subpaths"));
        mounts.sort();
        assert_eq!(mounts, [self.volume("empty-dir", "memory"), secret]);
    }

    fn is_gone(&self) {
        let pods = self.node.state().join("pods");
        let left: Vec<_> =
            std::fs::read_dir(&pods).map_or_else(|_| vec![], |dir| dir.map(|e| e.unwrap().path()).collect());
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(mounts_below(&self.node.state()), Vec::<PathBuf>::new());
    }
}

/// Every call of the run that changes something.
fn changes(before: &[&str], words: &[&str]) -> Vec<Call> {
    let left = Left::after(before);
    let log = left.node.path("log");
    let done = left.traced(&["-o", log.to_str().unwrap()], words);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let trace = std::fs::read_to_string(&log).unwrap();
    testkit::changes_since(&trace, &left.node.state(), |name| !LOOKS.contains(&name))
}

/// Kills the run at every such call, then goes on in one of two ways, in turn; in both where more rounds
/// are asked for. In the caller's mount namespace, which must not be the host's.
fn sweep(before: &[&str], words: &[&str], go_on: [&(dyn Fn(&Left) + Sync); 2]) {
    let calls = changes(before, words);
    assert!(calls.len() > 10, "the recording shows too little: {calls:?}");
    let (mut runs, mut killed) = (0, 0);
    for (place, call) in calls.iter().enumerate() {
        let chosen = |way: usize| testkit::rounds() > 1 || way == place % 2;
        for (_, check) in go_on.iter().enumerate().filter(|(way, _)| chosen(*way)) {
            let left = Left::after(before);
            let done = left.traced(&call.kill(), words);
            println!("killed at {call}: {}", !done.status.success());
            runs += 1;
            killed += usize::from(!done.status.success());
            check(&left);
        }
    }
    println!("{} calls of {words:?}, killed {killed} times in {runs} runs", calls.len());
    assert!(killed * 10 > runs * 9, "only {killed} of {runs} runs were killed");
}

fn torn_down(left: &Left) {
    left.act(&["tear-down"]);
    left.is_gone();
}

#[test]
fn killed_at_any_call_of_a_set_up() {
    let set_up_again = |left: &Left| {
        left.act(&["set-up"]);
        left.is_set_up("old");
        torn_down(left);
    };
    alone(|| sweep(&[], &["set-up"], [&set_up_again, &torn_down]));
}

#[test]
fn killed_at_any_call_of_an_update() {
    let updated_again = |left: &Left| {
        let seen = std::fs::read_to_string(left.volume("secret", "secret").join("a")).unwrap();
        left.is_set_up(&seen);
        assert!(["old", "new"].contains(&seen.as_str()));
        left.act(&["update"]);
        left.is_set_up("new");
    };
    alone(|| sweep(&["set-up"], &["update"], [&updated_again, &torn_down]));
}

/// Mounts the parts again, after `before`: all is as if nobody had been killed.
fn parts_again(before: &'static [&'static str]) -> impl Fn(&Left) + Sync {
    move |left: &Left| {
        let mine = left.volume("empty-dir", "scratch").join("mine");
        std::fs::write(&mine, "text").unwrap();
        left.act(&[before, &["parts"]].concat());
        left.is_set_up("old");
        let root = BASE + LENGTH;
        for made in ["logs", "logs/today"] {
            let path = left.volume("empty-dir", "scratch").join(made);
            assert_eq!(on_host(&path), format!("{root}:{} 2777", root + 2000));
        }
        assert_eq!(on_host(&left.node.path("srv/made/deep/below")), "0:0 755");
        let parts = mounts_below(&left.node.state().join("pods/pod/volume-subpaths"));
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert_eq!(std::fs::read_to_string(mine).unwrap(), "text");
        torn_down(left);
        assert!(left.node.path("srv/made/deep/below").exists());
    }
}

#[test]
fn killed_at_any_call_of_mounting_parts() {
    alone(|| sweep(&["set-up"], &["parts"], [&parts_again(&["set-up"]), &torn_down]));
}

/// A container that is started again has its parts mounted, without its pod being set up anew.
#[test]
fn killed_at_any_call_of_mounting_parts_that_are_then_mounted_alone() {
    let again = parts_again(&[]);
    alone(|| sweep(&["set-up"], &["parts"], [&again, &again]));
}

#[test]
fn killed_at_any_call_of_a_teardown() {
    let set_up_again = |left: &Left| {
        left.act(&["set-up"]);
        left.is_set_up("old");
        torn_down(left);
    };
    let before = ["set-up", "parts"];
    alone(|| sweep(&before, &["tear-down"], [&set_up_again, &torn_down]));
}
