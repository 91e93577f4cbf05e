//! A running testbed, as tests and the command line hold it.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::control::{self, Request};
use super::handlers::Handler;
use super::launch::{await_ready, check, create, last_words, spawn_keeper};
use super::parts::{Containerd, NodeAgent, Part, Parts};
use super::record::{Lifetime, Record};
use super::{User, daemons, lock, pki, supervise, sweep};
use crate::process::ProcessId;
use crate::{Error, Result};

/// What to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name; none makes one up.
    pub name: Option<String>,
    /// What it is made of.
    pub parts: Parts,
    /// Which containerd.
    pub containerd: Containerd,
    /// What is in the kubelet's role.
    pub node_agent: NodeAgent,
    /// Runtime handlers besides the usual one, or in its place.
    pub handlers: Vec<Handler>,
    /// Where its data goes, if not to the usual place.
    pub data_root: Option<PathBuf>,
    /// How long it lives.
    pub lifetime: Lifetime,
}

impl From<Parts> for Options {
    fn from(parts: Parts) -> Self {
        let lifetime = Lifetime::Users { linger: 0 };
        let (containerd, handlers) = (Containerd::Pinned, Vec::new());
        let node_agent = NodeAgent::Kubelet;
        Self { name: None, parts, containerd, node_agent, handlers, data_root: None, lifetime }
    }
}

/// A testbed that is ready. Dropping one that was started with [`Testbed::start`] ends it; if this process is
/// killed instead, the testbed notices and ends itself.
#[derive(Debug)]
pub struct Testbed {
    record: Record,
    /// Held for as long as we use it.
    users: Option<File>,
    /// Whether it ends with this value.
    ends: Ends,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    WithThis,
    ByItself,
}

impl Testbed {
    /// Starts a testbed that ends with the value returned.
    ///
    /// # Errors
    /// If a component is missing or a part does not become ready; nothing is left then.
    pub fn start(options: impl Into<Options>) -> Result<Self> {
        let options = options.into();
        check(&options)?;
        let ends = if options.lifetime == Lifetime::Detached { Ends::ByItself } else { Ends::WithThis };
        sweep::leftovers()?;
        let guard = lock()?;
        let (record, users) = create(options)?;
        let name = record.name.clone();
        let words = spawn_keeper(&record)?;
        drop(guard);
        let record = await_ready(&name).map_err(|error| last_words(&name, words, error))?;
        Ok(Self { record, users: Some(users), ends })
    }

    /// One that is up already; it goes on living when the value returned is dropped.
    ///
    /// # Errors
    /// If there is none of this name or it is not ready.
    pub fn attach(name: &str) -> Result<Self> {
        let record = Record::read(name)?;
        if !record.tended() {
            return Err(Error::Absent { name: name.to_owned() });
        }
        let path = record.places.users();
        let users = File::open(&path).map_err(Error::file("open", &path))?;
        // Refused only by a supervisor that has already decided to end.
        if flock(&users, FlockOperation::NonBlockingLockShared).is_err() {
            return Err(Error::Absent { name: name.to_owned() });
        }
        let record = await_ready(name)?;
        Ok(Self { record, users: Some(users), ends: Ends::ByItself })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// What it is and what it made.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The administrator's kubeconfig. Its server is reached inside only.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.record.places.pki().join("admin.kubeconfig")
    }

    /// The kubeconfig of node0, which [`crate::faults`] can cut off from the API server.
    #[must_use]
    pub fn node_kubeconfig(&self) -> PathBuf {
        self.record.places.pki().join("kubelet.kubeconfig")
    }

    /// The kubeconfig of another user, made now: of a second node, or of one without rights.
    ///
    /// # Errors
    /// If its files cannot be written.
    pub fn user_kubeconfig(&self, user: &User<'_>) -> Result<PathBuf> {
        pki::add(&self.record.places.pki(), user)
    }

    /// Runs `work` on a thread of its own in the network of the testbed: what it connects to is what daemons see.
    ///
    /// # Errors
    /// If the network namespace cannot be entered.
    pub fn in_network<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let pid = self.record.supervisor.map_or(0, |process| process.pid);
        let path = PathBuf::from(format!("/proc/{pid}/ns/net"));
        let namespace = File::open(&path).map_err(Error::file("open", &path))?;
        let entered = || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| Error::file("enter", &path)(error.into()))?;
            Ok(work())
        };
        std::thread::scope(|scope| match scope.spawn(entered).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// The arguments of a part with one daemon, as this testbed runs it or would.
    ///
    /// # Errors
    /// If its component is not installed.
    pub fn arguments(&self, part: Part) -> Result<Vec<String>> {
        let launches = daemons::launches(&self.record, part)?;
        Ok(launches.into_iter().flat_map(|launch| launch.arguments).collect())
    }

    /// containerd's socket, which is reached from outside too.
    #[must_use]
    pub fn containerd_socket(&self) -> PathBuf {
        self.record.places.containerd_socket()
    }

    /// The process that holds the namespaces.
    #[must_use]
    pub fn supervisor(&self) -> Option<ProcessId> {
        self.record.supervisor
    }

    /// A command that will run inside: network, mounts and cgroups of the testbed, the components on PATH,
    /// `KUBECONFIG` and containerd's address set.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        command(&self.record, program.as_ref())
    }

    /// Starts a part again that was killed, and waits until it is ready.
    ///
    /// # Errors
    /// If it does not become ready.
    pub fn restart(&mut self, part: Part) -> Result<()> {
        self.restart_under(part, &[])
    }

    /// The same, as a child of another program: `strace` with its arguments.
    ///
    /// # Errors
    /// If it does not become ready.
    pub fn restart_under(&mut self, part: Part, wrapper: &[String]) -> Result<()> {
        self.ask_to_start(part, wrapper, None)
    }

    /// Starts this node agent in the place of the one that was killed: with the same configuration, credentials, root
    /// directory and containers.
    ///
    /// # Errors
    /// If it is not installed or the node does not become ready.
    pub fn replace_node_agent(&mut self, node_agent: NodeAgent) -> Result<()> {
        self.ask_to_start(Part::Kubelet, &[], Some(node_agent))
    }

    fn ask_to_start(&mut self, part: Part, wrapper: &[String], node_agent: Option<NodeAgent>) -> Result<()> {
        let request = Request::Start { part, wrapper: wrapper.to_vec(), node_agent };
        let outcome = control::ask(&self.record, &request);
        self.record = Record::read(&self.record.name)?;
        outcome
    }

    /// Leaves the end to the supervisor, which sees the last user go.
    pub(crate) fn outlived(mut self) -> Self {
        self.ends = Ends::ByItself;
        self
    }

    /// Ends it and makes sure that nothing is left.
    ///
    /// # Errors
    /// If something is left.
    pub fn down(mut self) -> Result<()> {
        self.ends = Ends::ByItself;
        self.users = None;
        down(&self.record.name)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.users = None;
        if self.ends == Ends::WithThis {
            // Nothing can be returned from here; the next testbed that starts removes the rest.
            let _ = down(&self.record.name);
        }
    }
}

/// Ends the testbed `name`.
///
/// # Errors
/// If there is none or something of it is left.
pub fn down(name: &str) -> Result<()> {
    let record = Record::read(name)?;
    if record.tended() {
        if control::ask(&record, &Request::Down).is_err() {
            // It is still starting, or hangs: the keeper cleans up after it.
            if let Some(supervisor) = Record::read(name).ok().and_then(|record| record.supervisor) {
                supervisor.signal(Signal::KILL);
            }
        }
        await_end(&record, Duration::from_secs(60));
    }
    let _guard = lock()?;
    // The keeper has swept; if it could not, this says why.
    match Record::read(name) {
        Ok(left) => sweep::sweep(&left)?,
        Err(Error::Absent { .. }) => {}
        Err(error) => return Err(error),
    }
    let _ = fs::remove_dir(crate::paths::RUN_ROOT);
    let _ = fs::remove_dir(crate::paths::DATA_ROOT);
    Ok(())
}

fn await_end(record: &Record, patience: Duration) {
    let began = Instant::now();
    while record.tended() && began.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    if let Some(keeper) = record.keeper {
        keeper.signal(Signal::KILL);
    }
}

/// Joins the testbed's cgroups before it becomes the command, so that whatever it leaves is found; then goes
/// to the directory it was called from, which /run of the host is not.
const JOIN: &str = r#"for d in /sys/fs/cgroup/daemons /sys/fs/cgroup/*/daemons; do
    [ ! -d "$d" ] || echo $$ > "$d/cgroup.procs"
done
cd "$0" 2>/dev/null || cd /
exec "$@""#;

fn command(record: &Record, program: &std::ffi::OsStr) -> Command {
    let pid = record.supervisor.map_or(0, |process| process.pid);
    let socket = record.places.containerd_socket();
    let mut command = Command::new("nsenter");
    command.args(["--target", &pid.to_string(), "--mount", "--net", "--cgroup", "--", "sh", "-c", JOIN]);
    command.arg(std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))).arg(program);
    command
        .env("PATH", supervise::path(record))
        .env("KUBECONFIG", record.places.pki().join("admin.kubeconfig"))
        .env("CONTAINERD_ADDRESS", &socket)
        .env("CONTAINERD_NAMESPACE", "k8s.io")
        .env("CONTAINER_RUNTIME_ENDPOINT", format!("unix://{}", socket.display()));
    command
}
