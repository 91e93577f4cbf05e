//! Small real pods, made from what the kernel has: a user namespace, an overlay of an idmapped layer, volumes, and
//! a busybox that sleeps, in a control group named like the kubelet's. All is gone when they are dropped.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "each test binary uses what it needs, and a test may panic"
)]

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cgroups::{Group, Hierarchies};
use ids::IdMapping;
use kernel::{Access, DetachedMount, Overlay, Source, Submounts, UsernsFd, in_private_mount_namespace};
use serde_json::Value;

/// How a pod's volume is presented at /data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Volume {
    Idmapped,
    /// As a runtime would that knows nothing of maps.
    Plain,
}

/// Whose users a pod has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    Own,
    Hosts,
}

/// What a pod is to be like.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) uid: String,
    pub(crate) base: u64,
    pub(crate) volume: Volume,
    pub(crate) users: Users,
    /// What its first process does before it sleeps: words of busybox's shell.
    pub(crate) script: String,
}

impl Wanted {
    pub(crate) fn new(uid: &str, base: u64) -> Self {
        let (uid, script) = (uid.to_owned(), "exec /bin/busybox sleep 1000".to_owned());
        Self { uid, base, volume: Volume::Idmapped, users: Users::Own, script }
    }
}

/// A process that is gone when this is.
pub(crate) struct Planted(pub(crate) Child);

impl Planted {
    pub(crate) fn start(command: &mut Command, becomes: &str) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let planted = Self(child);
        let deadline = Instant::now() + Duration::from_secs(20);
        let comm = format!("/proc/{}/comm", planted.0.id());
        while fs::read_to_string(&comm).unwrap_or_default().trim() != becomes {
            assert!(Instant::now() < deadline, "{command:?} did not become {becomes}");
            std::thread::sleep(Duration::from_millis(5));
        }
        planted
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A control group that is gone, with all below it, when this is. It outlives the processes in it.
pub(crate) struct Cgroup {
    top: Group,
    pod: Group,
}

impl Cgroup {
    pub(crate) fn new(uid: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let top = format!("/wardlet-verify-{}-{number}", std::process::id());
        let hierarchies = Hierarchies::find().unwrap();
        let pod = Group::open(&hierarchies, &format!("{top}/kubepods/besteffort/pod{uid}")).unwrap();
        let made = Self { top: Group::open(&hierarchies, &top).unwrap(), pod };
        made.pod.make().unwrap();
        made
    }

    pub(crate) fn add(&self, pid: u32) {
        self.pod.add(pid).unwrap();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let removed = self.top.remove();
        if !std::thread::panicking() {
            removed.unwrap();
        }
    }
}

/// A pod that runs. Its fields are dropped in their order: the process before its group before its files.
pub(crate) struct TestPod {
    pub(crate) process: Planted,
    pub(crate) group: Cgroup,
    pub(crate) uid: String,
    pub(crate) base: u64,
    scratch: tempfile::TempDir,
}

impl TestPod {
    pub(crate) fn start(wanted: &Wanted) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path();
        // The pod's root has no power over it, and has to pass.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["layer/bin", "layer/etc", "layer/data", "layer/proc", "upper", "work", "root", "volume"]
        {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        fs::copy("/usr/bin/busybox", dir.join("layer/bin/busybox")).unwrap();
        fs::write(dir.join("layer/etc/motd"), "welcome\n").unwrap();
        fs::write(dir.join("volume/file"), "content\n").unwrap();
        let base = u32::try_from(wanted.base).unwrap();
        if wanted.users == Users::Own {
            chown(dir.join("upper"), Some(base), Some(base)).unwrap();
        }
        let group = Cgroup::new(&wanted.uid);
        let process = match wanted.users {
            Users::Own => isolated(dir, wanted),
            Users::Hosts => {
                Planted::start(Command::new("/usr/bin/busybox").args(["sleep", "1000"]), "busybox")
            }
        };
        group.add(process.pid());
        Self { process, group, uid: wanted.uid.clone(), base: wanted.base, scratch }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its volume, as the host has it.
    pub(crate) fn volume(&self) -> PathBuf {
        self.scratch.path().join("volume")
    }

    /// A file of the container, as the host reaches it.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.pid()))
    }
}

pub(crate) fn maps(base: u64, length: u64) -> UsernsFd {
    let line = IdMapping::new(0, base, length).unwrap();
    UsernsFd::create(&[line], &[line]).unwrap()
}

/// `nsenter` into a user namespace; what follows is root there.
pub(crate) fn entering(userns: &UsernsFd) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--user=/proc/{}/fd/{}", std::process::id(), userns.as_fd().as_raw_fd()));
    command
}

/// As runtimes do: what was the root before is gone. The first argument is the new root, the second a script to run there.
/// (busybox unmounts only what it finds in /proc/mounts.)
const PIVOT: &str = r#"
    mount --rbind "$0" "$0" && mount --rbind /proc "$0/proc" && cd "$0" && pivot_root . . &&
    /bin/busybox umount -l . && cd / && /bin/busybox umount -l /proc && exec /bin/busybox sh -c "$1"
"#;

/// The mounts are made in a namespace that the host does not see, which the pod's is a copy of.
fn isolated(dir: &Path, wanted: &Wanted) -> Planted {
    let userns = maps(wanted.base, 65_536);
    in_private_mount_namespace(|_| {
        let alone = Submounts::Without;
        let lower = DetachedMount::idmapped(&dir.join("layer"), &userns, Access::ReadOnly, alone).unwrap();
        let (upper, work) = (dir.join("upper"), dir.join("work"));
        let overlay = Overlay { lowers: vec![lower], upper: &upper, work: &work, label: None, options: &[] };
        let root = dir.join("root");
        overlay.make_by_descriptor().unwrap().attach(&root).unwrap();
        let volume = dir.join("volume");
        let volume = match wanted.volume {
            Volume::Idmapped => DetachedMount::idmapped(&volume, &userns, Access::ReadWrite, alone),
            Volume::Plain => DetachedMount::clone_of(Source::Path(&volume), alone),
        };
        volume.unwrap().attach(&root.join("data")).unwrap();
        let mut command = entering(&userns);
        command.args(["--", "unshare", "--mount", "--net", "--ipc", "--uts", "sh", "-c"]);
        command.arg(PIVOT).arg(&root).arg(&wanted.script);
        Planted::start(&mut command, "busybox")
    })
    .unwrap()
}

/// A node's own directories and a pool of its own: tests side by side do not see each other's IDs.
pub(crate) struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    /// Blocks from `first` on.
    pub(crate) fn new(first: u64, blocks: u64) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(status.contains("\nUid:\t0\t0\t0\t0\n"), "this test needs root");
        let dir = tempfile::tempdir().unwrap();
        let pool = format!("{first}-{}", first + blocks * 65_536 - 1);
        let pods = dir.path().join("kubelet/pods");
        let config = format!(
            "userNamespaces: {{pool: {{uids: [\"{pool}\"]}}}}\nkubelet: {{podsDir: {}}}\n",
            pods.display()
        );
        fs::write(dir.path().join("config.yaml"), config).unwrap();
        Self { dir }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn kubelet_pods(&self) -> PathBuf {
        self.dir.path().join("kubelet/pods")
    }

    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wardlet"));
        command.args(words.split_whitespace()).arg("--config").arg(self.dir.path().join("config.yaml"));
        command.arg("--state-dir").arg(self.state());
        command
    }

    pub(crate) fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self, words: &str) -> (Option<i32>, Value) {
        let output = self.run(&format!("{words} -o json"));
        let value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        (output.status.code(), value)
    }

    /// A leased pod.
    pub(crate) fn isolated_pod(&self, uid: &str) -> TestPod {
        TestPod::start(&Wanted::new(uid, self.lease(uid)))
    }

    pub(crate) fn lease(&self, holder: &str) -> u64 {
        let (code, lease) = self.json(&format!("ids lease {holder}"));
        assert_eq!(code, Some(0), "{lease}");
        lease["uidMappings"][0]["hostId"].as_u64().unwrap()
    }

    /// Nothing is wrong with the pod.
    #[track_caller]
    pub(crate) fn passes(&self, uid: &str) -> Value {
        let (code, report) = self.json(&format!("verify {uid}"));
        assert_eq!((code, &report["holds"]), (Some(0), &Value::Bool(true)), "{report:#}");
        report
    }

    /// `what` is wrong with the pod, and the text for people says so as well.
    #[track_caller]
    pub(crate) fn convicts(&self, uid: &str, what: &str) -> Value {
        let (code, report) = self.json(&format!("verify {uid}"));
        assert_eq!(code, Some(1), "{report:#}");
        assert_eq!(report["holds"], false);
        let found = report["violations"].as_array().unwrap().iter().find(|v| v["what"] == what);
        let found = found.unwrap_or_else(|| panic!("no {what} in {report:#}")).clone();
        let shown = String::from_utf8(self.run(&format!("verify {uid}")).stdout).unwrap();
        assert!(shown.contains(&format!("violation: {what}: ")), "{shown}");
        found
    }
}
