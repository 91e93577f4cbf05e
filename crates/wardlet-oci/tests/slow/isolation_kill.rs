//! Killed at system call N while a container is made ready. Needs root, strace and Debian's runc.
//!
//! The run is recorded once, with a runtime that does nothing; then it is repeated for every call that changes
//! something, and killed at its entry. Nothing of it must be left but the owner of the directory that takes the
//! container's changes, and whoever comes next must find nothing in the way.

use crate::isolation;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use isolation::{BASE, Host, Pod, Runtime, checks, debians, owner, spec};

/// What changes something, be it of this process or of the host.
const CHANGES: &[&str] = &[
    "mkdir",
    "mkdirat",
    "chown",
    "fchown",
    "fchownat",
    "lchown",
    "chmod",
    "fchmod",
    "fchmodat",
    "mknod",
    "mknodat",
    "unlink",
    "unlinkat",
    "rename",
    "renameat2",
    "write",
    "mount",
    "umount2",
    "move_mount",
    "mount_setattr",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "unshare",
    "setns",
    "clone",
    "clone3",
    "execve",
];

/// A runtime that does nothing.
fn nothing() -> Runtime {
    Runtime { program: "/bin/true".into(), traits: "runc-1.1" }
}

struct Round {
    id: String,
    bundle: PathBuf,
    upper: PathBuf,
}

impl Round {
    /// One of a pod whose first container runs, with all kinds of mounts.
    fn new(host: &Host, pod: &Pod) -> Self {
        let volume = host.path("volume");
        fs::create_dir_all(&volume).unwrap();
        let (id, bundle) = host.bundle(pod, |spec| {
            spec::bind(spec, &volume, "/data", &["rbind", "rslave", "rw"]);
            spec["linux"]["sysctl"] = serde_json::json!({ "net.core.somaxconn": "99" });
            let device = serde_json::json!({ "path": "/dev/given", "type": "c", "major": 10, "minor": 229 });
            spec["linux"]["devices"] = serde_json::json!([device]);
        });
        let upper = checks::upper_of(host, &bundle);
        Self { id, bundle, upper }
    }

    fn traced(&self, command: &Command, options: &[impl AsRef<OsStr>]) -> Output {
        let mut traced = testkit::strace();
        traced.args(options).arg(command.get_program()).args(command.get_args());
        traced.stdin(Stdio::null()).current_dir(&self.bundle).output().unwrap()
    }
}

#[test]
fn killed_at_any_call_nothing_is_left_but_the_owner_of_the_containers_own_directory() {
    Host::play(debians(), |host| {
        let pod = host.running_pod(BASE);
        let first = Round::new(host, &pod);
        let log = host.path("trace");
        let command = host.create_command(&nothing(), &pod, (&first.id, &first.bundle));
        let done = first.traced(&command, &["-o", log.to_str().unwrap()]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let calls = testkit::changes(&fs::read_to_string(&log).unwrap(), |name| CHANGES.contains(&name));
        assert!(calls.len() > 40, "the recording shows too little: {calls:?}");
        let round = Round::new(host, &pod);
        let before = host.mounts();
        let mut killed = 0;
        for call in &calls {
            let command = host.create_command(&nothing(), &pod, (&round.id, &round.bundle));
            let done = round.traced(&command, &call.kill());
            killed += usize::from(!done.status.success());
            let at = format!("killed at {call}");
            host.assert_mounts(&before, &at);
            assert!([(0, 0), (BASE, BASE)].contains(&owner(&round.upper)), "{at}");
            assert_eq!(names(&round.upper), Vec::<String>::new(), "{at}");
            assert_eq!(names(host.stage()), ["rootfs"], "{at}");
        }
        println!("{} calls, killed {killed} times", calls.len());
        assert!(killed * 10 > calls.len() * 9, "only {killed} of {} runs were killed", calls.len());
        let container =
            host.create_in(&pod, &round.id, &round.bundle).unwrap_or_else(|error| panic!("{error}"));
        host.start(&container);
    });
}

fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
