//! A real server in a network and a mount namespace of its own, with directories and a control group of its own.
//!
//! Everything that the server mounts is seen in that namespace only, so nothing on the host can be harmed by
//! whatever is removed afterwards.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "each test binary uses what it needs, and a test may panic"
)]

pub mod image;
pub mod killing;
pub mod pods;
pub mod story;
pub mod traces;
pub mod websocket;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cri::Endpoint;
use cri::client::Client;
use monitor::MonitorRecord;
use rustix::process::{Pid, Signal, kill_process};

/// Long enough for a loaded machine; nothing is asserted about it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// As many as 64 pods have.
const USERS: u32 = 64 * 65_536;

/// How the server is started.
#[derive(Debug, Clone)]
pub struct Options {
    pub engine: String,
    pub network: String,
    pub run_dir: RunDir,
}

/// What the run directory is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunDir {
    /// Whatever the rest is on.
    Disk,
    /// A tmpfs that is only seen in the house.
    Memory,
}

impl Default for Options {
    fn default() -> Self {
        // The same tests hold for every back end.
        let engine = std::env::var("WARDLET_ENGINE").unwrap_or_else(|_| "libcontainer".into());
        Self { engine, network: "none".into(), run_dir: RunDir::Disk }
    }
}

pub struct House {
    pub dir: PathBuf,
    pub cgroup: String,
    options: Options,
    holder: Child,
    server: Option<Child>,
    /// Where the server finds its programs, if not beside itself.
    pub programs: Option<PathBuf>,
    /// All that its servers have said.
    pub said: Arc<Mutex<Vec<String>>>,
    first_user: u32,
}

impl House {
    pub async fn open(options: Options) -> Self {
        let name = format!("wlt-{}-{}", std::process::id(), nanos());
        // Not on tmpfs: layers as nodes have them. Short, for the sockets below it.
        let dir = PathBuf::from("/var/tmp").join(&name);
        fs::create_dir(&dir).unwrap();
        let mut house = Self {
            cgroup: format!("/{name}"),
            holder: holder(),
            dir,
            options,
            server: None,
            programs: None,
            said: Arc::default(),
            first_user: 1_441_792_000 + nanos() % 600 * USERS,
        };
        image::import(&house.state(), &house.dir);
        if house.options.run_dir == RunDir::Memory {
            fs::create_dir(house.run()).unwrap();
            let mut mount = house.inside(Path::new("mount"));
            mount.args(["-t", "tmpfs", "-o", "mode=711", "none"]).arg(house.run());
            assert!(mount.status().unwrap().success());
        }
        house.start().await;
        house
    }

    /// Users that pods of this house may have and those of another one at the same time hardly have.
    pub fn users(&self) -> std::ops::Range<u32> {
        self.first_user..self.first_user + USERS
    }

    pub fn state(&self) -> PathBuf {
        self.dir.join("s")
    }

    pub fn run(&self) -> PathBuf {
        self.dir.join("r")
    }

    pub fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    pub fn socket(&self) -> Endpoint {
        Endpoint::try_from(self.dir.join("cri.sock")).unwrap()
    }

    /// A program in the house's namespaces.
    pub fn inside(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.holder.id().to_string(), "-n", "-m", "--"]).arg(program);
        command
    }

    /// The server as it is called, not started yet.
    pub fn server_command(&self) -> Command {
        let programs = testkit::programs();
        let mut command = self.inside(&programs.join("wardlet"));
        command.args(["cri", "--listen", &self.socket().to_string(), "--cgroup", &self.cgroup]);
        command.arg("--state-dir").arg(self.state()).arg("--run-dir").arg(self.run());
        command.args(["--engine", &self.options.engine, "--network", &self.options.network]);
        if let Some(programs) = &self.programs {
            command.arg("--programs").arg(programs);
        }
        command
    }

    pub async fn start(&mut self) {
        let mut child = self.server_command().stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // What it says is shown by a test that fails.
        let said = Arc::clone(&self.said);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                println!("| {line}");
                said.lock().unwrap().push(line);
            }
        });
        self.server = Some(child);
        let since = Instant::now();
        while Client::connect(&self.socket()).await.is_err() {
            let ended = self.server.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {ended:?}");
            assert!(since.elapsed() < PATIENCE, "the server does not serve");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The server's process, unless it has ended.
    pub fn server(&mut self) -> Option<u32> {
        let server = self.server.as_mut()?;
        server.try_wait().unwrap().is_none().then(|| server.id())
    }

    /// Ends the server as a crash does.
    pub fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// Ends the server as an operator does.
    pub fn terminate(&mut self) -> std::process::ExitStatus {
        let mut server = self.server.take().unwrap();
        signal(server.id(), Signal::TERM);
        server.wait().unwrap()
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.socket()).await.unwrap()
    }

    /// The monitor of a pod.
    pub fn monitor(&self, sandbox: &str) -> MonitorRecord {
        MonitorRecord::read(&self.run().join("sandboxes").join(sandbox)).unwrap().unwrap()
    }

    /// The process that the house's namespaces are known by.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
        traces::end_monitors(&self.run());
        traces::end_group(&self.cgroup);
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        // The holder's mounts are gone with it; on the host there never was one below this directory.
        let parent = kernel::Dir::open(self.dir.parent().unwrap()).unwrap();
        if let Err(error) = parent.remove_tree(self.dir.file_name().unwrap()) {
            println!("{} is left: {error}", self.dir.display());
        }
    }
}

pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = kill_process(pid, signal);
}

/// A process that does nothing but keep a network and a mount namespace.
fn holder() -> Child {
    let script = "ip link set lo up 2>/dev/null; echo ready; exec sleep 1000000";
    let mut child = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn nanos() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.subsec_nanos()
}

/// Waits until something is so.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(since.elapsed() < PATIENCE, "{what}: in vain");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
