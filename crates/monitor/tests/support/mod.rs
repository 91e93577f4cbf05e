//! A pod's directories, its monitor, and containers that are shell scripts (see the example
//! `monitor_fake_container`). All of it is gone when the pod is dropped.
#![allow(dead_code)]

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use monitor::{
    Client, Event, Exit, Exited, Launch, Listed, MonitorRecord, ProcessId, Reply, Request, SharedPid,
    StartRequest, Stdin, record,
};
use rustix::process::{Pid, Signal, kill_process};
pub(crate) use testkit::wait_until;

/// Generous: under load everything takes long, and nothing here is about time.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) fn monitor_program() -> PathBuf {
    env!("CARGO_BIN_EXE_wardlet-monitor").into()
}

/// The stand-in for a container.
pub(crate) fn fake_container() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| testkit::example("monitor_fake_container", env!("CARGO_MANIFEST_DIR")))
}

pub(crate) struct Pod {
    root: tempfile::TempDir,
    pub(crate) launch: Launch,
}

impl Pod {
    /// Its directories; no monitor yet.
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new().prefix("monitor-test-").tempdir().unwrap();
        let dir = root.path().join("sandbox");
        std::fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
        let launch = Launch {
            program: monitor_program(),
            dir,
            container_program: fake_container().to_owned(),
            shared_pid: None,
        };
        Self { root, launch }
    }

    pub(crate) fn with_shared_pid(owner: SharedPid) -> Self {
        let mut pod = Self::new();
        pod.launch.shared_pid = Some(owner);
        pod
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.launch.dir
    }

    pub(crate) fn spawn(&self) -> Client {
        self.launch.spawn().unwrap().with_patience(SOON)
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.dir()).unwrap().with_patience(SOON)
    }

    pub(crate) fn monitor(&self) -> ProcessId {
        MonitorRecord::read(self.dir()).unwrap().unwrap().process
    }

    pub(crate) fn kill_monitor(&self) {
        kill(self.monitor());
    }

    /// A container's directory, with its job and its script.
    pub(crate) fn container(&self, name: &str, script: &str) -> PathBuf {
        self.container_in_group(name, script, "/no/such/group")
    }

    pub(crate) fn container_in_group(&self, name: &str, script: &str, group: &str) -> PathBuf {
        let dir = self.container_dir(name);
        let run = self.path("run").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::create_dir_all(&run).unwrap();
        let job = format!(
            r#"{{"version":1,"engine":"libcontainer","runDir":{run:?},"start":{{"id":{name:?},"cgroup":{{"path":{group:?}}}}}}}"#
        );
        std::fs::write(dir.join("job.json"), job).unwrap();
        std::fs::write(dir.join("script"), script).unwrap();
        dir
    }

    pub(crate) fn container_dir(&self, name: &str) -> PathBuf {
        self.path("containers").join(name)
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.path("logs").join(name).join("0.log")
    }

    pub(crate) fn request(&self, name: &str) -> StartRequest {
        StartRequest {
            container: name.to_owned(),
            dir: self.container_dir(name),
            log: Some(self.log(name)),
            terminal: false,
            stdin: Stdin::None,
            limits: None,
        }
    }

    /// Makes a container of a script and starts it.
    pub(crate) fn start(&self, client: &mut Client, name: &str, script: &str) -> u32 {
        self.container(name, script);
        start(client, self.request(name))
    }

    pub(crate) fn exit(&self, name: &str) -> Option<Exit> {
        Exit::read(&self.container_dir(name)).unwrap()
    }

    /// A log's lines without their moments: stream, tag and text.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.log(name)).unwrap();
        // The rest is just being written.
        let text = text.get(..text.rfind('\n').map_or(0, |end| end + 1)).unwrap();
        text.split_terminator('\n').map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let record = MonitorRecord::read(self.dir()).ok().flatten();
        if let Some(record) = record {
            [Some(record.process), record.pid_namespace].into_iter().flatten().for_each(kill);
        }
        self.processes().into_iter().for_each(kill);
    }
}

impl Pod {
    /// Every process that was started for this pod's containers has their directory in its command line or
    /// its environment. They stand for the control group that a server would look into.
    pub(crate) fn processes(&self) -> Vec<ProcessId> {
        let mark = self.path("containers").to_str().unwrap().to_owned();
        let mut found = vec![];
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
            let is_meant = |file: &str| String::from_utf8_lossy(&read(file)).contains(&mark);
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if is_meant("cmdline") || is_meant("environ") {
                found.extend(number.and_then(|number| ProcessId::of(number).ok()));
            }
        }
        found
    }
}

/// The process that is meant, and no later one.
pub(crate) fn kill(process: ProcessId) {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw).unwrap();
    if process.is_same() {
        let _ = kill_process(pid, Signal::KILL);
        wait_until("the killed process is gone", || state(process).is_none_or(|state| state == 'Z'));
    }
}

/// `R`, `S`, `Z` and so on; `None` if it is gone.
pub(crate) fn state(process: ProcessId) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).ok()?;
    let state = stat.rsplit(") ").next()?.chars().next();
    if process.is_same() { state } else { None }
}

pub(crate) fn start(client: &mut Client, request: StartRequest) -> u32 {
    match client.call(&Request::Start(request), &[]).unwrap() {
        Reply::Started(started) => started.pid,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn done(client: &mut Client, request: &Request) {
    assert_eq!(client.call(request, &[]).unwrap(), Reply::Done, "{request:?}");
}

pub(crate) fn refused(client: &mut Client, request: &Request) -> String {
    match client.call(request, &[]).unwrap() {
        Reply::Refused { what } => what,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn list(client: &mut Client) -> Vec<Listed> {
    match client.call(&Request::List, &[]).unwrap() {
        Reply::Listed(listed) => listed,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn next_exit(client: &mut Client) -> Exited {
    let Event::Exited(exited) = client.next_within(SOON).unwrap().expect("nothing was told");
    exited
}

pub(crate) fn socket(dir: &Path) -> PathBuf {
    dir.join(record::SOCKET)
}
