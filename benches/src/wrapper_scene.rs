//! A node for the wrapper: bundles such as containerd makes them, and one pod that runs.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use kernel::{Filesystem, FilesystemKind, FsOption, NamespaceKind, Owner};
use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, wait, waitpid};
use serde_json::{Value, json};

use crate::wrapper::{Case, program, stand_in, timed};

const RUNC: &str = "/usr/sbin/runc";
const POD: &str = "bench-pod";
const PID_FILE: &str = "init.pid";
/// The pod that is joined is one process.
const STAYING: usize = 1;
const PATIENCE: Duration = Duration::from_secs(10);

/// A node for the wrapper. What is mounted goes with the mount namespace, what runs with this.
pub(crate) struct Scene {
    dir: tempfile::TempDir,
    program: PathBuf,
}

impl Scene {
    pub(crate) fn make(dir: &Path) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("wrapper").tempdir_in(dir)?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        set_child_subreaper(Some(getpid()))?;
        let scene = Self { dir, program: program()? };
        stand_in(&scene.path("runtime"))?;
        scene.image()?;
        scene.memory_for_runs()?;
        let networks = kernel::namespace::make(None, &[NamespaceKind::Net], None)?;
        networks.first().context("no network namespace was made")?.pin(&scene.path("network"))?;
        for case in [Case::Plain, Case::Alone, Case::First, Case::Joining, Case::Joined] {
            scene.bundle(case)?;
        }
        scene.configure(Path::new(RUNC))?;
        let log = scene.path("said");
        let mut pod = scene.create(Case::Joined, POD);
        pod.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log)?);
        ensure!(pod.status()?.success(), "the pod to join: {}", fs::read_to_string(&log)?);
        scene.configure(&scene.path("runtime"))?;
        Self::settle()?;
        Ok(scene)
    }

    /// The runtime alone.
    pub(crate) fn straight(&self, case: Case, number: usize) -> anyhow::Result<Duration> {
        let mut command = Command::new(self.path("runtime"));
        command.args(self.words(case, &format!("straight-{number}")));
        let took = timed(&mut command)?;
        self.end(case)?;
        Ok(took)
    }

    /// The same through the wrapper.
    pub(crate) fn wrapped(&self, case: Case, number: usize) -> anyhow::Result<Duration> {
        let id = format!("wrapped-{number}");
        if has_users(case) {
            self.renew(case, number)?;
        }
        if case == Case::Alone {
            // As if the last one had been longer ago.
            let _ = fs::remove_file(self.path("run/seen"));
        }
        let took = timed(&mut self.create(case, &id))?;
        self.end(case)?;
        if has_users(case) {
            timed(self.command().arg("--root").arg(self.path("root")).args(["delete", "--force", &id]))?;
            Self::settle()?;
        }
        Ok(took)
    }

    /// Ends what the stand-in has left behind.
    fn end(&self, case: Case) -> anyhow::Result<()> {
        if case == Case::State {
            return Ok(());
        }
        let text =
            fs::read_to_string(self.bundle_of(case).join(PID_FILE)).context("the stand-in's process")?;
        let left = kernel::Process::open(text.trim().parse()?)?;
        let pid = Pid::from_raw(text.trim().parse()?).context("the stand-in's process")?;
        left.signal(Signal::KILL)?;
        // As containerd's shim does: a host that keeps what has ended has more to be looked at.
        waitpid(Some(pid), WaitOptions::empty())?;
        Self::settle()
    }

    /// Comes back when nobody is left but the pod that is joined. Who looked after the creates before is neither kept when it
    /// has ended, nor at work beside the next one.
    fn settle() -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
            if children()? <= STAYING {
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "who looked after a create is still there");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn create(&self, case: Case, id: &str) -> Command {
        let mut command = self.command();
        command.args(self.words(case, id));
        command
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("WARDLET_CONFIG", self.path("config.yaml"));
        command
    }

    fn words(&self, case: Case, id: &str) -> Vec<String> {
        let bundle = self.bundle_of(case);
        let text = |path: &Path| path.display().to_string();
        let root = text(&self.path("root"));
        if case == Case::State {
            return ["--root", &root, "state", id].map(str::to_owned).to_vec();
        }
        let (bundle, pid) = (text(&bundle), text(&bundle.join(PID_FILE)));
        ["--root", &root, "create", "--bundle", &bundle, "--pid-file", &pid, id].map(str::to_owned).to_vec()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn bundle_of(&self, case: Case) -> PathBuf {
        self.path(&format!("{case:?}"))
    }

    fn configure(&self, runtime: &Path) -> anyhow::Result<()> {
        let dir = self.dir.path().display();
        let text = format!(
            "userNamespaces: {{pool: {{uids: [\"1703936000-1966079999\"]}}}}\nwrapper:\n  runtime: {}\n  \
             runDir: {dir}/run\n  user_namespace_state_dir: {dir}/state\n  enable_user_namespace_annotation: true\n",
            runtime.display()
        );
        Ok(fs::write(self.path("config.yaml"), text)?)
    }

    /// What ends with the boot lies in memory, as below /run.
    fn memory_for_runs(&self) -> anyhow::Result<()> {
        let kind = FilesystemKind::Tmpfs { size: None, inodes: None, mode: 0o755, owner: Owner::ROOT };
        fs::create_dir(self.path("run"))?;
        Ok(Filesystem::new(kind).mount_at(&self.path("run"))?)
    }

    fn image(&self) -> anyhow::Result<()> {
        let layer = self.path("layer");
        for dir in ["bin", "proc", "sys", "dev"] {
            fs::create_dir_all(layer.join(dir))?;
        }
        fs::copy("/bin/busybox", layer.join("bin/busybox")).context("busybox")?;
        Ok(symlink("busybox", layer.join("bin/sleep"))?)
    }

    fn bundle(&self, case: Case) -> anyhow::Result<()> {
        let bundle = self.bundle_of(case);
        fs::create_dir_all(bundle.join("rootfs"))?;
        fs::write(bundle.join("config.json"), self.spec(case).to_string())?;
        self.overlay(&bundle, "")
    }

    /// Another place for a container's changes, as the snapshotter makes one for each: the ledger has to write it
    /// down. That of the one before goes, as it does with a container that is removed.
    fn renew(&self, case: Case, number: usize) -> anyhow::Result<()> {
        let bundle = self.bundle_of(case);
        kernel::unmount(&bundle.join("rootfs"), kernel::Unmount::Lazy)?;
        for dir in ["upper", "work"] {
            let before = bundle.join(number.checked_sub(1).map_or(dir.to_owned(), |n| format!("{dir}-{n}")));
            fs::remove_dir_all(&before).with_context(|| format!("cannot remove {}", before.display()))?;
        }
        self.overlay(&bundle, &format!("-{number}"))
    }

    fn overlay(&self, bundle: &Path, name: &str) -> anyhow::Result<()> {
        let (upper, work) = (format!("upper{name}"), format!("work{name}"));
        for dir in [&upper, &work] {
            fs::create_dir_all(bundle.join(dir))?;
        }
        let text = |name: &str| bundle.join(name).display().to_string();
        let layer = self.path("layer").display().to_string();
        let options = [("lowerdir", layer), ("upperdir", text(&upper)), ("workdir", text(&work))];
        let options = options.iter().map(|(name, value)| FsOption::new(name, value.as_str())).collect();
        let kind = FilesystemKind::Other { name: "overlay".to_owned(), source: None, options };
        // By path, as containerd's shim does: mountinfo shows the layers.
        Ok(Filesystem::new(kind).mount_at(&bundle.join("rootfs"))?)
    }

    fn spec(&self, case: Case) -> Value {
        let kind = if case == Case::Joining { "container" } else { "sandbox" };
        let mut annotations = json!({
            "io.kubernetes.cri.container-type": kind, "io.kubernetes.cri.sandbox-id": POD,
            "io.kubernetes.cri.sandbox-namespace": "default", "io.kubernetes.cri.sandbox-name": "bench",
        });
        if let (Some(all), true) = (annotations.as_object_mut(), case != Case::Plain) {
            all.insert("wardlet.dev/user-namespace".to_owned(), json!("true"));
        }
        let mount = |at: &str, kind: &str| json!({"destination": at, "type": kind, "source": kind, "options": ["nosuid", "noexec", "nodev"]});
        let hosts = json!({"destination": "/etc/hosts", "type": "bind", "source": "/etc/hosts",
            "options": ["rbind", "rprivate", "ro"]});
        json!({
            "ociVersion": "1.0.2", "root": {"path": "rootfs"}, "annotations": annotations,
            "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "args": ["/bin/sleep", "10000"]},
            "mounts": [mount("/proc", "proc"), json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}), mount("/sys", "sysfs"), hosts],
            "linux": {
                "resources": {"devices": [{"allow": false, "access": "rwm"}]},
                "namespaces": [{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"},
                    {"type": "network", "path": self.path("network")}],
            },
        })
    }
}

/// How many children this process has.
fn children() -> anyhow::Result<usize> {
    let mut count = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        match fs::read_to_string(task.join("children")) {
            Ok(text) => count += text.split_ascii_whitespace().count(),
            // A thread that has ended meanwhile.
            Err(_) if !task.exists() => {}
            Err(error) => return Err(error).context("how many children this process has"),
        }
    }
    Ok(count)
}

/// Whether it is one of a pod with a user namespace, and made anew each time.
fn has_users(case: Case) -> bool {
    matches!(case, Case::Alone | Case::First | Case::Joining)
}

impl Drop for Scene {
    fn drop(&mut self) {
        let root = self.path("root");
        let _ = Command::new(RUNC).arg("--root").arg(root).args(["delete", "--force", POD]).output();
        for case in [Case::Plain, Case::Alone, Case::First, Case::Joining, Case::Joined] {
            let _ = kernel::unmount(&self.bundle_of(case).join("rootfs"), kernel::Unmount::Lazy);
        }
        for name in ["network", "run"] {
            let _ = kernel::unmount(&self.path(name), kernel::Unmount::Lazy);
        }
    }
}
