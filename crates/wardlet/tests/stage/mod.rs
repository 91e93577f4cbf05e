//! The examples on both runtimes: one testbed for all tests of a suite, with containerd and the built-in runtime
//! on it. A runtime is had by one test at a time, so that what is left of a pod is that test's.
#![allow(dead_code, reason = "each suite uses a part of it")]

pub(crate) mod calls;
pub(crate) mod kernel_calls;
mod overlay;
mod play;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use testbed::{Part, Parts, Testbed};

pub(crate) use play::{Play, refused, to_its_end};

/// In the examples; the only word of theirs that is another one here.
const SRV: &str = "/srv/wardlet";

/// Which runtime the pods are run by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Containerd,
    BuiltIn,
}

// Not dropped at the end: the testbed sees its last user go, and everything is below its own directories.
static TESTBED: LazyLock<Testbed> =
    LazyLock::new(|| Testbed::start(Parts::of(&[Part::Containerd])).expect("containerd"));
static ON_CONTAINERD: LazyLock<Mutex<Stage>> = LazyLock::new(|| Mutex::new(Stage::new(By::Containerd)));
static ON_BUILT_IN: LazyLock<Mutex<Stage>> = LazyLock::new(|| Mutex::new(Stage::new(By::BuiltIn)));

pub(crate) fn stage(by: By) -> MutexGuard<'static, Stage> {
    let of = if by == By::Containerd { &ON_CONTAINERD } else { &ON_BUILT_IN };
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a test of each function for each runtime. Neighbours by name have not the same one, so that both are busy.
macro_rules! on_each_runtime {
    ($($name:ident)*) => {
        $(mod $name {
            use crate::stage::{By, stage};

            #[test]
            fn on_containerd() {
                super::$name(&stage(By::Containerd));
            }

            #[test]
            fn on_the_built_in_runtime() {
                super::$name(&stage(By::BuiltIn));
            }
        })*
    };
}
pub(crate) use on_each_runtime;

/// A node whose pods one of the runtimes runs.
pub(crate) struct Stage {
    pub(crate) by: By,
    /// On the host's own disk, which can be idmapped.
    dir: PathBuf,
}

impl Stage {
    fn new(by: By) -> Self {
        let name = if by == By::Containerd { "on-containerd" } else { "on-built-in" };
        let dir = TESTBED.record().places.data.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let stage = Self { by, dir };
        stage.configure("");
        stage.import(&top().join("scripts/busybox-image.sh"), &["localhost/wardlet-busybox:1"]);
        stage.import(&top().join("examples/stories/image.sh"), &[]);
        stage
    }

    fn import(&self, maker: &Path, words: &[&str]) {
        let archive = self.path("image.tar");
        let made = Command::new(maker).args(words).arg(&archive).output().unwrap();
        assert!(made.status.success(), "{}", text(&made));
        let archive = archive.to_str().unwrap();
        let mut import = match self.by {
            By::BuiltIn => self.wardlet(&["image", "import", archive]),
            By::Containerd => self.inside("ctr", &["images", "import", archive]),
        };
        let done = import.output().unwrap();
        assert!(done.status.success(), "{}", text(&done));
    }

    /// The node's configuration: host IDs that no other test has, and what else is given.
    pub(crate) fn configure(&self, more: &str) {
        let first = 3_221_225_472 + u64::from(self.by == By::BuiltIn) * 128 * 65_536;
        let last = first + 128 * 65_536 - 1;
        let pool = format!("{{uids: [{first}-{last}], gids: [{first}-{last}]}}");
        let text = format!("userNamespaces: {{quarantineSeconds: 1, pool: {pool}}}\n{more}");
        std::fs::write(self.path("config.yaml"), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// What is /srv/wardlet in the examples.
    pub(crate) fn srv(&self) -> PathBuf {
        let srv = self.path("srv");
        std::fs::create_dir_all(&srv).unwrap();
        srv
    }

    /// An example, as it is but for `change`.
    pub(crate) fn example(&self, name: &str, change: impl FnOnce(&str) -> String) -> PathBuf {
        let text = std::fs::read_to_string(top().join("examples").join(name)).unwrap();
        let text = change(&text.replace(SRV, self.path("srv").to_str().unwrap()));
        let path = self.path(&name.replace('/', "-"));
        let next = path.with_extension("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, &path).unwrap();
        path
    }

    /// A command in the testbed.
    pub(crate) fn inside(&self, program: &str, words: &[&str]) -> Command {
        let mut command = TESTBED.command(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn wardlet(&self, words: &[&str]) -> Command {
        let mut command = self.inside(env!("CARGO_BIN_EXE_wardlet"), &[]);
        command.arg("--state-dir").arg(self.path("state")).arg("--config").arg(self.path("config.yaml"));
        command.args(words);
        command
    }

    pub(crate) fn json(&self, words: &[&str]) -> serde_json::Value {
        let output = self.wardlet(&[&["-o", "json"], words].concat()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{words:?}: {e}: {}", text(&output)))
    }

    /// Where the pods' runtime listens.
    pub(crate) fn endpoint(&self) -> String {
        match self.by {
            By::Containerd => format!("unix://{}", TESTBED.containerd_socket().display()),
            By::BuiltIn => "unix:///run/wardlet-stage/cri.sock".to_owned(),
        }
    }

    /// `wardlet run`, with the pods' runtime named.
    pub(crate) fn run(&self, file: &Path, more: &[&str]) -> Command {
        let (endpoint, programs) = (self.endpoint(), testbed::own::program("wardlet-monitor").unwrap());
        let mut command = self.wardlet(&["run", "--run-dir=/run/wardlet-stage"]);
        match self.by {
            By::Containerd => command.arg(format!("--runtime-endpoint={endpoint}")),
            By::BuiltIn => command.arg("--programs").arg(programs.parent().unwrap()),
        };
        command.args(more).arg(file);
        command
    }

    /// The processes of this pod, as the host numbers them.
    pub(crate) fn processes(&self, pod: &str) -> Vec<u32> {
        let read = |pid: u32, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let host = format!("HOSTNAME={pod}");
        // A pod of the same name may run elsewhere, but only ours has files from this node's directory.
        let ours = self.path("state/pods").display().to_string();
        let is_pods = |pid: &u32| {
            read(*pid, "environ").split(|byte| *byte == 0).any(|variable| variable == host.as_bytes())
                && String::from_utf8_lossy(&read(*pid, "mountinfo")).contains(&ours)
        };
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(is_pods).collect()
    }

    /// Everything that a pod could have left behind.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        if self.by == By::Containerd {
            let listed = self.inside("ctr", &["containers", "ls", "-q"]).output().unwrap();
            left.extend(String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned));
        }
        for dir in ["state/pods", "state/logs", "state/runtime/sandboxes", "state/runtime/containers"] {
            let entries = std::fs::read_dir(self.path(dir)).into_iter().flatten().flatten();
            left.extend(entries.map(|e| e.path().display().to_string()));
        }
        let mounts = self.inside("cat", &["/proc/self/mountinfo"]).output().unwrap();
        let ours = self.path("state").display().to_string();
        let mounts = String::from_utf8_lossy(&mounts.stdout).into_owned();
        left.extend(mounts.lines().filter(|line| line.contains(&ours)).map(str::to_owned));
        let leases = self.json(&["ids", "list"]);
        let held = leases.as_array().unwrap().iter().filter(|lease| lease["state"] == "leased");
        left.extend(held.map(ToString::to_string));
        left
    }
}

pub(crate) fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{:?}\nstdout: {out}\nstderr: {err}", output.status)
}
