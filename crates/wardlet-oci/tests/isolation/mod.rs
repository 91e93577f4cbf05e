//! A host as containerd makes it for its runtime, played in a mount namespace of its own: snapshots, bundles
//! that nobody but root can pass to, networks by path.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

pub mod checks;
pub mod spec;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use cgroups::{Group, Hierarchies};
use kernel::{MountTable, NamespaceKind, in_private_mount_namespace};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use serde_json::{Value, json};

/// The first host ID of the first pod.
pub const BASE: u64 = 1_048_576;

/// A runtime, and what the wrapper knows of such.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub program: PathBuf,
    pub traits: &'static str,
}

/// Debian's, which joins the user namespace first.
pub fn debians() -> Runtime {
    Runtime { program: "/usr/sbin/runc".into(), traits: "runc-1.1" }
}

/// A host, while [`Host::play`] lasts.
pub struct Host {
    pub runtime: Runtime,
    /// Nobody but root can pass to it, as to containerd's own.
    dir: tempfile::TempDir,
    /// Everybody can.
    stage: tempfile::TempDir,
    group: Group,
    name: String,
    number: AtomicU32,
}

/// A pod's network and numbers.
pub struct Pod {
    pub base: u64,
    pub network: PathBuf,
    /// The first process of its first container.
    pub init: Option<u32>,
}

/// A container that was created.
pub struct Created {
    pub id: String,
    pub pid: u32,
    pub bundle: PathBuf,
    pub out: Option<ChildStdout>,
}

impl Host {
    /// Plays one for as long as `work` takes, and cleans up whatever becomes of it.
    pub fn play<T: Send>(runtime: Runtime, work: impl FnOnce(&Host) -> T + Send) -> T {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("wardlet-ward-{}-{number}", std::process::id());
        let group = Group::open(&Hierarchies::find().unwrap(), &format!("/{name}")).unwrap();
        let temporary = || tempfile::Builder::new().prefix("ward").tempdir_in("/var/tmp").unwrap();
        let (dir, stage) = (temporary(), temporary());
        fs::set_permissions(stage.path(), Permissions::from_mode(0o755)).unwrap();
        let host = Host { runtime, dir, stage, group, name, number: AtomicU32::new(0) };
        host.image();
        in_private_mount_namespace(|_| {
            // As systemd has it: what is mounted here reaches whoever does not keep it out.
            mount_change("/", MountPropagationFlags::SHARED | MountPropagationFlags::REC).unwrap();
            let _end = End(&host);
            work(&host)
        })
        .unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn stage(&self) -> &Path {
        self.stage.path()
    }

    pub fn layer(&self, number: u32) -> PathBuf {
        self.path(&format!("snapshots/{number}/fs"))
    }

    /// Two layers: busybox, and on top of it a home that belongs to user 1000.
    fn image(&self) {
        let (below, above) = (self.layer(1), self.layer(2));
        for dir in ["bin", "etc", "data", "proc", "sys", "dev", "tmp", "www"] {
            fs::create_dir_all(below.join(dir)).unwrap();
        }
        fs::set_permissions(below.join("tmp"), Permissions::from_mode(0o1777)).unwrap();
        fs::copy("/bin/busybox", below.join("bin/busybox")).unwrap();
        for name in ["sh", "cat", "id", "ls", "stat", "sleep", "touch", "mkdir", "httpd", "readlink", "chown"]
        {
            symlink("busybox", below.join("bin").join(name)).unwrap();
        }
        fs::write(below.join("etc/hosts"), "").unwrap();
        fs::write(below.join("www/index.html"), "served").unwrap();
        fs::create_dir_all(above.join("home/ann")).unwrap();
        fs::write(above.join("home/ann/text"), "ann's").unwrap();
        for path in ["home/ann", "home/ann/text"] {
            chown(above.join(path), Some(1000), Some(1001)).unwrap();
        }
    }

    pub fn pod(&self, base: u64) -> Pod {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let path = self.path(&format!("network-{number}"));
        let made = kernel::namespace::make(None, &[NamespaceKind::Net], None).unwrap();
        made[0].pin(&path).unwrap();
        let visit = kernel::NetworkVisit::to(&made[0]).unwrap();
        let up = Command::new("/bin/busybox").args(["ip", "link", "set", "lo", "up"]).status().unwrap();
        visit.leave().unwrap();
        assert!(up.success());
        Pod { base, network: path, init: None }
    }

    /// A pod whose first container runs.
    pub fn running_pod(&self, base: u64) -> Pod {
        let mut pod = self.pod(base);
        let sandbox = self.create(&pod, |_| {});
        self.start(&sandbox);
        pod.init = Some(sandbox.pid);
        pod
    }

    /// A bundle as the shim leaves it for its runtime: an overlay over the image, mounted.
    pub fn bundle(&self, pod: &Pod, change: impl FnOnce(&mut Value)) -> (String, PathBuf) {
        let number = 10 + self.number.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", self.name);
        let bundle = self.path(&format!("bundles/{id}"));
        fs::create_dir_all(bundle.join("rootfs")).unwrap();
        fs::create_dir_all(self.layer(number)).unwrap();
        fs::create_dir_all(self.path(&format!("snapshots/{number}/work"))).unwrap();
        let mut spec = spec::like_containerd(pod, &format!("/{}/{id}", self.name));
        change(&mut spec);
        fs::write(bundle.join("config.json"), serde_json::to_vec_pretty(&spec).unwrap()).unwrap();
        self.mount_overlay(
            number,
            &bundle.join("rootfs"),
            self.dir.path().join("snapshots").to_str().unwrap(),
        );
        (id, bundle)
    }

    /// With layers by paths below `lowers`; relative ones start at the directory of all snapshots.
    pub fn mount_overlay(&self, number: u32, at: &Path, lowers: &str) {
        self.mount_with(number, at, (lowers, ""));
    }

    /// One that is not kept beyond the end of the machine.
    pub fn mount_volatile(&self, number: u32, at: &Path) {
        self.mount_with(number, at, (self.path("snapshots").to_str().unwrap(), ",volatile"));
    }

    fn mount_with(&self, number: u32, at: &Path, (lowers, more): (&str, &str)) {
        let lower = |layer: u32| {
            if lowers.is_empty() { format!("{layer}/fs") } else { format!("{lowers}/{layer}/fs") }
        };
        let own = self.path(&format!("snapshots/{number}"));
        let options = format!(
            "index=off,workdir={0}/work,upperdir={0}/fs,lowerdir={1}:{2}{more}",
            own.display(),
            lower(2),
            lower(1)
        );
        // The working directory is this thread's own in a mount namespace of its own.
        let before = std::env::current_dir().unwrap();
        std::env::set_current_dir(self.path("snapshots")).unwrap();
        let options = std::ffi::CString::new(options).unwrap();
        mount("overlay", at, "overlay", MountFlags::empty(), options.as_c_str()).unwrap();
        std::env::set_current_dir(before).unwrap();
    }

    pub fn create(&self, pod: &Pod, change: impl FnOnce(&mut Value)) -> Created {
        let (id, bundle) = self.bundle(pod, change);
        self.create_in(pod, &id, &bundle).unwrap_or_else(|error| panic!("{error}"))
    }

    /// What the actor said, if it failed.
    pub fn create_in(&self, pod: &Pod, id: &str, bundle: &Path) -> Result<Created, String> {
        let pid_file = bundle.join("init.pid");
        let mut command = self.create_command(&self.runtime, pod, (id, bundle));
        let said = bundle.join("said");
        command.stderr(File::create(&said).unwrap());
        let mut child = command.spawn().unwrap();
        if !child.wait().unwrap().success() {
            let log = fs::read_to_string(bundle.join("log")).unwrap_or_default();
            return Err(format!("{}{log}", fs::read_to_string(said).unwrap()));
        }
        let pid = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        Ok(Created { id: id.to_owned(), pid, bundle: bundle.to_owned(), out: child.stdout.take() })
    }

    pub fn create_command(&self, runtime: &Runtime, pod: &Pod, (id, bundle): (&str, &Path)) -> Command {
        let order = json!({
            "bundle": bundle, "id": id, "stage": self.stage(), "base": pod.base,
            "runtime": runtime.traits,
            "joins": pod.init,
        });
        let mut command = self.actor(runtime, "create", (bundle, &order));
        command.arg("--log").arg(bundle.join("log"));
        command.args(["create", "--bundle", "@BUNDLE@", "--pid-file"]).arg(bundle.join("init.pid")).arg(id);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).current_dir(bundle);
        command
    }

    fn actor(&self, runtime: &Runtime, what: &str, (dir, order): (&Path, &Value)) -> Command {
        let file = dir.join(format!("{what}.order"));
        fs::write(&file, order.to_string()).unwrap();
        let mut command = Command::new(actor());
        command.arg(what).arg(file).arg(&runtime.program).args(["--root".as_ref(), self.root().as_os_str()]);
        command
    }

    fn root(&self) -> PathBuf {
        self.path("runtime")
    }

    pub fn runtime(&self, words: &[&str]) -> Output {
        let mut command = Command::new(&self.runtime.program);
        command.arg("--root").arg(self.root()).args(words).stdin(Stdio::null()).output().unwrap()
    }

    pub fn start(&self, container: &Created) {
        let done = self.runtime(&["start", &container.id]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Runs a container of a pod to its end; what it said.
    pub fn run(&self, pod: &Pod, change: impl FnOnce(&mut Value)) -> String {
        let mut container = self.create(pod, change);
        self.start(&container);
        let mut said = String::new();
        std::io::Read::read_to_string(&mut container.out.take().unwrap(), &mut said).unwrap();
        said.trim().to_owned()
    }

    /// Runs `script` as `user` in a container that is there.
    pub fn exec(&self, pod: &Pod, container: &Created, (user, script): (u32, &str)) -> String {
        let process = json!({
            "user": { "uid": user, "gid": user }, "cwd": "/", "env": ["PATH=/bin"],
            "args": ["/bin/sh", "-c", script],
        });
        let file = container.bundle.join("process.json");
        fs::write(&file, process.to_string()).unwrap();
        let order = json!({
            "init": container.pid, "process": process, "base": pod.base, "runtime": self.runtime.traits,
        });
        let mut command = self.actor(&self.runtime, "exec", (&container.bundle, &order));
        command.args(["exec", "--process"]).arg(&file).arg(&container.id).stdin(Stdio::null());
        let done = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert!(done.status.success(), "{} {}", text(&done.stdout), text(&done.stderr));
        text(&done.stdout)
    }

    /// The mounts of this host.
    pub fn mounts(&self) -> MountTable {
        MountTable::read().unwrap()
    }

    /// Asserts that no mount is new, and that all below the host's directories are as before. A mount of another program
    /// may be gone: if its mount point is removed, it vanishes from all mount namespaces.
    #[track_caller]
    pub fn assert_mounts(&self, before: &MountTable, context: &str) {
        let now = self.mounts();
        let new: Vec<_> = now.iter().filter(|&mount| before.by_id(mount.id) != Some(mount)).collect();
        assert!(new.is_empty(), "{context}: {new:?}");
        for dir in [self.dir.path(), self.stage.path()] {
            assert_eq!(
                now.under(dir).collect::<Vec<_>>(),
                before.under(dir).collect::<Vec<_>>(),
                "{context}"
            );
        }
    }
}

/// What a host leaves behind goes.
struct End<'a>(&'a Host);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let listed = self.0.runtime(&["list", "-q"]);
        for id in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
            self.0.runtime(&["delete", "--force", id]);
        }
        let _ = self.0.group.kill_all();
        let _ = self.0.group.remove();
    }
}

/// A child that is killed at the end.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn owner(path: &Path) -> (u64, u64) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.uid().into(), metadata.gid().into())
}

/// The program that does what a test says, as another process.
pub fn actor() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| testkit::example("isolation_actor", env!("CARGO_MANIFEST_DIR")))
}
