//! Containers for tests: a root of busybox alone, a stand-in for the monitor (this process takes in the
//! container and writes down what the monitor would), and the proof that nothing is left.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::needless_pass_by_value,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

pub mod same;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use container::{
    Bind, Cgroup, Console, ContainerSpec, Engine, Job, MountPropagation, MountSpec, NamespaceSpec,
    NamespaceSpecs, NewMount, Owners, Process, ReadOnly, Resources, Rlimit, Rootfs, Seccomp, WantedUser,
};

use ids::{IdMapping, IdMappings};
use kernel::{Charge, IdMaps, Namespace, NamespaceKind, UsernsFd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType,
    recvmsg, send, socketpair,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, waitpid};
use serde_json::{Value, json};
pub use testkit::wait_until;

/// The first host ID of the maps that are used here.
pub const BASE: u32 = 1_900_544_000;

/// Our program: the one that was built with the test, or on another machine the one that came along.
pub fn helper() -> PathBuf {
    let built = env!("CARGO_BIN_EXE_wardlet-container");
    std::env::var_os("WARDLET_TEST_HELPER").map_or_else(|| built.into(), PathBuf::from)
}

/// Where everything is made: short, and passable for everybody. The name of another one where `/run` cannot
/// hold layers.
fn scratch() -> PathBuf {
    std::env::var_os("WARDLET_TEST_DIR").map_or_else(|| "/run".into(), PathBuf::from)
}

pub fn debians_runc() -> Engine {
    Engine::Oci { path: "/usr/sbin/runc".into(), args: vec![] }
}

pub fn lines() -> IdMappings {
    let line = IdMapping::new(0, BASE.into(), 65_536).unwrap();
    IdMappings { uids: vec![line], gids: vec![line] }
}

/// Which user namespace a container is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Users {
    /// That of the host.
    Host,
    /// One that the pod has, with its network, IPC and UTS namespaces.
    Pod,
    /// One that the engine makes, or the helper for it.
    New,
}

/// One container's directories, and all that is made of them.
pub struct Box {
    root: PathBuf,
    pub job: Job,
    pins: Vec<PathBuf>,
    /// The slice above it, where process 1 is systemd.
    slice: Option<String>,
    pub init: Option<u32>,
}

impl Box {
    /// A container that runs `args`, not started yet.
    pub fn new(engine: Engine, users: Users, args: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        set_child_subreaper(Pid::from_raw(std::process::id().cast_signed())).unwrap();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:08x}{number:024x}", std::process::id());
        let root = scratch().join(format!("wt{id}"));
        fs::create_dir_all(root.join("state")).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o711)).unwrap();
        let mut start = start(&root, &id, users, args);
        let slice = slice(&id);
        if let Some(slice) = &slice {
            start.cgroup.path = cgroups::systemd::container_path(slice, &id);
        }
        let job = Job { version: 1, engine, run_dir: root.join("c"), start };
        let mut made = Self { root, job, pins: vec![], slice, init: None };
        if users == Users::Pod {
            made.give_namespaces();
        }
        if users != Users::Host && made.job.engine != Engine::Libcontainer && !may_limit_others() {
            println!("without CAP_SYS_RESOURCE this engine cannot limit processes in another user namespace");
            made.job.start.process.rlimits.clear();
        }
        made
    }

    fn give_namespaces(&mut self) {
        let ids = lines();
        let users = UsernsFd::charged(&IdMaps::new(&ids.uids, &ids.gids), Charge::Pod).unwrap();
        let kinds = [NamespaceKind::Net, NamespaceKind::Ipc, NamespaceKind::Uts];
        let made = kernel::namespace::make(Some(&users), &kinds, Some("the-pod")).unwrap();
        // As in earnest: a directory that only the host's root may enter.
        let dir = self.root.join("ns");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let pin = |name: &str| dir.join(name);
        users.pin(&pin("user")).unwrap();
        self.pins.push(pin("user"));
        for (namespace, name) in made.iter().zip(["net", "ipc", "uts"]) {
            namespace.pin(&pin(name)).unwrap();
            self.pins.push(pin(name));
        }
        self.job.start.namespaces.user = NamespaceSpec::At(pin("user"));
        self.job.start.namespaces.network = NamespaceSpec::At(pin("net"));
        self.job.start.namespaces.ipc = NamespaceSpec::At(pin("ipc"));
        self.job.start.namespaces.uts = NamespaceSpec::At(pin("uts"));
    }

    pub fn dir(&self) -> PathBuf {
        self.root.join("state")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn layer(&self) -> PathBuf {
        self.root.join("layer")
    }

    pub fn write_job(&self) {
        fs::write(self.dir().join("job.json"), serde_json::to_vec(&self.job).unwrap()).unwrap();
    }

    /// `wardlet-container run`, with the writing end of its result.
    pub fn run_command(&self, words: &[&str]) -> (Command, File) {
        self.write_job();
        let (reading, writing) = std::io::pipe().unwrap();
        let mut command = helper_with(writing.into());
        command.arg("run").arg(self.dir()).args(words);
        (command, File::from(OwnedFd::from(reading)))
    }

    /// Runs it and returns its result.
    pub fn run(&mut self, words: &[&str]) -> Value {
        let (mut command, mut result) = self.run_command(words);
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut text = String::new();
        result.read_to_string(&mut text).unwrap();
        let status = child.wait().unwrap();
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}, {status}"));
        assert!(text.ends_with('\n') && text.lines().count() == 1, "{text:?}");
        if let Some(pid) = value.pointer("/started/pid").and_then(Value::as_u64) {
            assert!(status.success());
            self.note_started(u32::try_from(pid).unwrap());
        }
        value
    }

    /// Runs it under strace, which may kill it.
    pub fn run_traced(&mut self, options: &[impl AsRef<std::ffi::OsStr>]) {
        self.write_job();
        let (reading, writing) = std::io::pipe().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec 3<&0 0</dev/null; exec \"$@\"", "sh", "strace", "-qq"]).args(options);
        command.arg(helper()).arg("run").arg(self.dir()).stdin(Stdio::from(OwnedFd::from(writing)));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        drop(command);
        child.wait().unwrap();
        // Not to its end: what was left may hold the other one.
        let mut bytes = [0; 4096];
        let mut reading = reading;
        let flags = rustix::fs::OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(&reading, flags).unwrap();
        let read = reading.read(&mut bytes).unwrap_or(0);
        let value: Value = serde_json::from_slice(&bytes[..read]).unwrap_or_default();
        if let Some(pid) = value.pointer("/started/pid").and_then(Value::as_u64) {
            self.note_started(u32::try_from(pid).unwrap());
        }
    }

    /// Started, or the test is over.
    pub fn started(&mut self) -> u32 {
        let result = self.run(&[]);
        self.init.unwrap_or_else(|| panic!("{result}"))
    }

    /// What the monitor writes down.
    pub fn note_started(&mut self, pid: u32) {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let record = json!({
            "version": 1, "pid": pid, "startTime": start_time(pid), "bootId": boot.trim(), "startedAt": 0,
            "user": { "uid": 0, "gid": 0, "groups": [] },
        });
        fs::write(self.dir().join("started.json"), record.to_string()).unwrap();
        self.init = Some(pid);
    }

    /// Waits for the container's first process, which this process has taken in.
    pub fn wait(&mut self) -> (Option<i32>, Option<i32>) {
        let pid = self.init.take().unwrap();
        let (_, status) = waitpid(Pid::from_raw(pid.cast_signed()), WaitOptions::empty()).unwrap().unwrap();
        (status.exit_status(), status.terminating_signal())
    }

    pub fn end(&mut self) {
        if let Some(pid) = self.init {
            let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
            self.wait();
        }
    }

    pub fn delete(&self) -> std::process::Output {
        Command::new(helper()).arg("delete").arg(self.dir()).output().unwrap()
    }

    /// Ends it, deletes it, and looks for what is left.
    pub fn delete_and_look(&mut self) {
        self.end();
        let done = self.delete();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(self.left(), Vec::<String>::new());
    }

    /// What there is of it beyond its own files.
    pub fn left(&self) -> Vec<String> {
        let path = Path::new(&self.job.start.cgroup.path);
        // That of a container in a scope is to go with the scope.
        let whole = path.parent().filter(|_| self.slice.is_some()).unwrap_or(path);
        let mut left: Vec<String> = cgroups(whole.to_str().unwrap());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let pinned = |line: &&str| self.pins.iter().any(|pin| line.contains(pin.to_str().unwrap()));
        let ours = mounts.lines().filter(|line| line.contains(self.root.to_str().unwrap()) && !pinned(line));
        left.extend(ours.map(str::to_owned));
        for name in ["engine", "stage"] {
            if self.job.run_dir.join(name).exists() {
                left.push(name.to_owned());
            }
        }
        left.extend(processes_in(self.root.to_str().unwrap()));
        left
    }

    /// Sends one request to `wardlet-container exec`.
    pub fn exec(&self, request: Value) -> Exec {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let mut command = helper_with(theirs);
        command.arg("exec").arg(self.dir()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        drop(command);
        send(&ours, request.to_string().as_bytes(), SendFlags::empty()).unwrap();
        Exec { child, socket: ours }
    }

    /// The output of a shell's line in the container.
    pub fn shell(&self, line: &str) -> String {
        let (text, end) = self.exec(shell(line)).output();
        assert_eq!(end, json!({ "exited": { "code": 0 } }), "{text}");
        text
    }
}

impl Drop for Box {
    fn drop(&mut self) {
        self.end();
        let _ = self.delete();
        for pin in &self.pins {
            Namespace::unpin(pin).unwrap();
        }
        if let Some(slice) = &self.slice {
            cgroups::Groups::find().unwrap().remove(slice).unwrap();
        }
        let name = self.root.file_name().unwrap().to_owned();
        let removed = kernel::Dir::open(&scratch()).unwrap().remove_tree(&name);
        if !thread::panicking() {
            removed.unwrap();
        }
    }
}

/// A slice for the container with this ID, as pods have one, where process 1 is systemd.
fn slice(id: &str) -> Option<String> {
    let groups = cgroups::Groups::find().unwrap();
    let slice = groups.has_systemd().then(|| format!("/wardlet_container_tests_{id}.slice"))?;
    groups.make(&slice).unwrap();
    Some(slice)
}

pub fn may_limit_others() -> bool {
    let held = rustix::thread::capabilities(None).unwrap().effective;
    held.contains(rustix::thread::CapabilitySet::SYS_RESOURCE)
}

pub fn shell(line: &str) -> Value {
    json!({ "args": ["/bin/sh", "-c", line], "env": null, "tty": false, "size": null, "user": null, "cwd": null })
}

/// A process that was asked for.
pub struct Exec {
    pub child: Child,
    pub socket: OwnedFd,
}

impl Exec {
    /// The next message, with the terminal that came along.
    pub fn next(&self) -> (Value, Option<OwnedFd>) {
        let (message, mut descriptors) = self.next_with_all();
        // The last is the process.
        descriptors.pop();
        (message, descriptors.pop())
    }

    /// The next message, with all that came along.
    pub fn next_with_all(&self) -> (Value, Vec<OwnedFd>) {
        let mut bytes = vec![0; 65536];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        let read = recvmsg(self.socket.as_fd(), parts, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap().bytes;
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(these) = message {
                fds.extend(these);
            }
        }
        if read == 0 {
            return (Value::Null, fds);
        }
        (serde_json::from_slice(&bytes[..read]).unwrap(), fds)
    }

    pub fn started(&self) -> u32 {
        let (message, _) = self.next();
        let pid = message.pointer("/started/pid").and_then(Value::as_u64);
        u32::try_from(pid.unwrap_or_else(|| panic!("{message}"))).unwrap()
    }

    /// All that it wrote, and its last message.
    pub fn output(mut self) -> (String, Value) {
        let (mut text, mut words) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        self.child.wait().unwrap();
        let mut last = Value::Null;
        loop {
            match self.next().0 {
                Value::Null => return (text + &words, last),
                message => last = message,
            }
        }
    }

    pub fn status(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

/// Our program, with this as its descriptor 3 and nothing to read.
fn helper_with(fd: OwnedFd) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "exec 3<&0 0</dev/null; exec \"$@\"", "sh"]).arg(helper()).stdin(Stdio::from(fd));
    // What nobody in a container may ever read.
    command.env("WARDLET_TEST_SECRET", "1");
    command
}

pub fn start_time(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap()
}

/// Directories of a control group that exist.
fn cgroups(path: &str) -> Vec<String> {
    let below = path.trim_start_matches('/');
    let mut roots: Vec<PathBuf> =
        fs::read_dir("/sys/fs/cgroup").unwrap().map(|e| e.unwrap().path()).collect();
    roots.push("/sys/fs/cgroup".into());
    roots
        .into_iter()
        .map(|root| root.join(below))
        .filter(|dir| dir.is_dir())
        .map(|dir| dir.display().to_string())
        .collect()
}

/// Processes that mention a path in their mounts or their words: all but this one.
fn processes_in(path: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let pids = names.filter(|name| name.parse::<u32>().is_ok() && *name != own);
    pids.filter(|pid| {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let has = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).contains(path);
        has(read("cmdline")) || has(read("cgroup"))
    })
    .map(|pid| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        format!("process {pid}: {} {:?}", read("comm").trim(), read("cmdline"))
    })
    .collect()
}

fn start(root: &Path, id: &str, users: Users, args: &[&str]) -> ContainerSpec {
    let made = |name: &str| -> PathBuf {
        let path = root.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let layer = made("layer");
    for dir in ["bin", "etc", "proc", "sys", "dev", "tmp", "data"] {
        fs::create_dir_all(layer.join(dir)).unwrap();
    }
    fs::copy("/bin/busybox", layer.join("bin/busybox"))
        .unwrap_or_else(|e| panic!("apt-get install busybox-static: {e}"));
    for name in [
        "sh", "sleep", "cat", "id", "true", "false", "tty", "stty", "ls", "stat", "kill", "pwd", "env",
        "echo", "nc", "mkdir", "umask", "dd", "readlink", "hostname", "touch", "cp", "chmod",
    ] {
        std::os::unix::fs::symlink("busybox", layer.join("bin").join(name)).unwrap();
    }
    fs::write(layer.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nana:x:1000:1001::/home/ana:/bin/sh\n")
        .unwrap();
    fs::write(layer.join("etc/group"), "root:x:0:\nana:x:1001:\nstaff:x:50:ana\n").unwrap();
    let other = users != Users::Host;
    let new = || NamespaceSpec::New;
    ContainerSpec {
        id: id.to_owned(),
        rootfs: Rootfs {
            lowers: vec![layer],
            upper: made("rw/upper"),
            work: made("rw/work"),
            read_only: false,
            owners: Owners::Idmap,
            label: None,
        },
        mounts: mounts(),
        volumes: Vec::new(),
        namespaces: NamespaceSpecs {
            user: if other { NamespaceSpec::New } else { NamespaceSpec::Host },
            network: new(),
            ipc: new(),
            uts: new(),
            pid: new(),
            cgroup: new(),
        },
        ids: other.then(lines),
        process: process(args),
        hostname: None,
        sysctls: BTreeMap::new(),
        masked_paths: vec!["/proc/kcore".into(), "/proc/keys".into()],
        read_only_paths: vec!["/proc/sys".into()],
        devices: Vec::new(),
        device_rules: Vec::new(),
        cgroup: Cgroup {
            path: format!("/wardlet-container-tests-{id}"),
            resources: Resources { pids: Some(100), memory: Some(256 << 20), ..Resources::default() },
        },
        annotations: BTreeMap::new(),
    }
}

fn mounts() -> Vec<MountSpec> {
    let new = |filesystem: &str, target: &str, options: &[&str]| {
        MountSpec::New(NewMount {
            filesystem: filesystem.into(),
            target: target.into(),
            options: options.iter().map(|o| (*o).to_owned()).collect(),
        })
    };
    vec![
        new("proc", "/proc", &["nosuid", "noexec", "nodev"]),
        new("tmpfs", "/dev", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        new(
            "devpts",
            "/dev/pts",
            &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        ),
        new("mqueue", "/dev/mqueue", &["nosuid", "noexec", "nodev"]),
    ]
}

pub fn bind(source: &Path, ids: Option<IdMappings>) -> MountSpec {
    MountSpec::Bind(Bind {
        source: source.to_owned(),
        target: "/data".into(),
        ids,
        read_only: ReadOnly::No,
        propagation: MountPropagation::None,
        options: Vec::new(),
    })
}

fn process(args: &[&str]) -> Process {
    Process {
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: vec!["PATH=/bin".into()],
        cwd: "/".into(),
        user: WantedUser::default(),
        capabilities: container::capabilities::of(&container::capabilities::RequestedCapabilities::default())
            .unwrap(),
        no_new_privileges: false,
        rlimits: vec![Rlimit { kind: "RLIMIT_NOFILE".into(), soft: 777, hard: 9999 }],
        oom_score_adj: Some(123),
        apparmor_profile: None,
        selinux_label: None,
        seccomp: Seccomp::Unconfined,
        console: Console::Pipes,
    }
}
