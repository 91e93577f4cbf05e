//! Making a testbed: its record and files, then the keeper and the supervisor, until it is ready.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::parts::{Containerd, NodeAgent, Part};
use super::record::{self, Record, State};
use super::testbed::Options;
use super::{cgroups, log_tail, pki, sweep};
use crate::paths::Places;
use crate::{Error, Result, cache, images};

/// The whole of a node on a cold and busy host.
const PATIENCE: Duration = Duration::from_secs(300);
/// Refuses early what would fail late: without root, or with a component missing.
pub(super) fn check(options: &Options) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        let cause = "only root may make its namespaces and cgroups".to_owned();
        return Err(Error::CannotBeHad { what: "a testbed".into(), cause });
    }
    for part in options.parts.iter() {
        let needed = match part {
            Part::Etcd => "etcd",
            Part::Apiserver => "kube-apiserver",
            Part::ControllerManager => "kube-controller-manager",
            Part::Scheduler => "kube-scheduler",
            Part::Registry => "registry",
            Part::Containerd if options.containerd != Containerd::Pinned => continue,
            Part::Containerd => "runc",
            Part::Recorder => continue,
            Part::Kubelet if options.node_agent == NodeAgent::Wardlet => continue,
            Part::Kubelet => "kubelet",
        };
        cache::program(needed, needed)?;
    }
    Ok(())
}

/// Writes everything that the supervisor will need. The lock is held.
pub(super) fn create(options: Options) -> Result<(Record, File)> {
    let name = options.name.unwrap_or_else(fresh_name);
    record::check_name(&name)?;
    let places = Places::of(&name, options.data_root.as_deref());
    if places.record().exists() {
        return Err(Error::InUse { name });
    }
    let record = Record {
        version: record::VERSION,
        cgroups: cgroups::plan(&name)?,
        name,
        parts: options.parts,
        containerd: options.containerd,
        node_agent: options.node_agent,
        handlers: options.handlers,
        lifetime: options.lifetime,
        state: State::Starting,
        boot: record::boot(),
        keeper: None,
        host_ids: 0,
        supervisor: None,
        daemons: Vec::new(),
        places,
    };
    let log = record.places.run.join("log");
    for dir in [&log, &record.places.data] {
        fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
    }
    record.write()?;
    let users = record.places.users();
    let file = File::create(&users).map_err(Error::file("make", &users))?;
    flock(&file, FlockOperation::LockShared).map_err(|error| Error::file("lock", &users)(error.into()))?;
    let made = pki::make(&record.places.pki()).and_then(|()| images::prepare(&record));
    if let Err(error) = made {
        sweep::sweep(&record)?;
        return Err(error);
    }
    Ok((record, file))
}

fn fresh_name() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    format!("t{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// Starts the keeper in a session of its own and waits until the record names it.
pub(super) fn spawn_keeper(record: &Record) -> Result<File> {
    let path = record.places.log("supervisor");
    let log = File::create(&path).map_err(Error::file("make", &path))?;
    let copy = log.try_clone().map_err(Error::file("open", &path))?;
    let words = File::open(&path).map_err(Error::file("open", &path))?;
    let binary = supervisor_binary()?;
    let mut command = Command::new("setsid");
    command.arg(&binary).args(["internal-keep", &record.name]);
    command.current_dir("/").stdin(Stdio::null()).stdout(log).stderr(copy);
    let spawned = command.spawn();
    let mut child =
        spawned.map_err(|source| Error::Spawn { program: binary.display().to_string(), source })?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        let ended = child.try_wait().ok().flatten().is_some();
        if ended || Record::read(&record.name).is_ok_and(|record| record.keeper.is_some()) {
            // Waited for elsewhere: a keeper that ends while we live would stay a zombie.
            std::thread::spawn(move || child.wait());
            return Ok(words);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(Error::NotReady { part: "the keeper".into(), seconds: 20, cause: log_tail(&path) })
}

/// The `testbed` program: named by `TESTBED_BIN`, this very program, or beside the test that runs.
fn supervisor_binary() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("TESTBED_BIN") {
        return Ok(named.into());
    }
    let own = std::env::current_exe().map_err(Error::file("find", "/proc/self/exe"))?;
    let beside = own.ancestors().skip(1).take(3).map(|dir| dir.join("testbed")).find(|path| path.is_file());
    beside.ok_or_else(|| Error::CannotBeHad {
        what: "the program `testbed`".into(),
        cause: format!("it is not beside {}; build it, or name it in TESTBED_BIN", own.display()),
    })
}

/// What the supervisor printed before it ended. Its log is removed by then, but readable through an open descriptor.
pub(super) fn last_words(name: &str, mut words: File, error: Error) -> Error {
    let mut text = String::new();
    match words.read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => {
            Error::Supervisor { name: name.to_owned(), said: crate::program::tail(&text) }
        }
        _ => error,
    }
}

pub(super) fn await_ready(name: &str) -> Result<Record> {
    let began = Instant::now();
    let mut last = None;
    while began.elapsed() < PATIENCE {
        match Record::read(name) {
            Ok(record) => {
                if record.state == State::Ready {
                    return Ok(record);
                }
                let ended = !record.tended();
                last = Some(record);
                if ended {
                    break;
                }
            }
            Err(Error::Absent { .. }) => break,
            Err(error) => return Err(error),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = match last.map(|record| record.state) {
        Some(State::Failed(said)) => said,
        _ => "it ended before it was ready".into(),
    };
    Err(Error::Supervisor { name: name.to_owned(), said })
}

/// Enters the cgroups of the testbed `name`, then new namespaces, then becomes the supervisor.
///
/// # Errors
/// If one of these steps fails; if all succeed it does not return.
pub fn enter(name: &str) -> Result<()> {
    cgroups::enter(&Record::read(name)?.cgroups)?;
    let own = std::env::current_exe().map_err(Error::file("find", "/proc/self/exe"))?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--cgroup", "--propagation", "slave", "--"]);
    let source = command.arg(own).args(["internal-supervise", name]).exec();
    Err(Error::Spawn { program: "unshare".into(), source })
}
