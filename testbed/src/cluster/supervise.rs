//! The supervisor: holds the namespaces, is the parent of every daemon, and ends with them.
//!
//! Daemons have a parent-death signal, so that a supervisor that is killed takes them along. It reaps orphans too:
//! shims that daemonize become its children.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitOptions};

use super::control::{self, Request};
use super::daemons::{self, Launch};
use super::parts::Part;
use super::record::{Daemon, Record, State};
use super::users::Users;
use super::{host_ids, inside, record};
use crate::process::ProcessId;
use crate::{Error, Result, cache, images};

/// How long a part may take until it is ready, on a loaded host with cold caches.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a daemon may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy)]
enum Step {
    Launch,
    Await,
}

/// What starts by itself starts first, and is waited for only where something needs it.
const ORDER: [(Step, Part); 16] = {
    use Part::{Apiserver, Containerd, ControllerManager, Etcd, Kubelet, Recorder, Registry, Scheduler};
    use Step::{Await, Launch};
    [
        (Launch, Etcd),
        (Launch, Containerd),
        (Launch, Registry),
        (Await, Etcd),
        (Launch, Apiserver),
        (Await, Containerd),
        (Launch, Recorder),
        (Await, Registry),
        (Await, Apiserver),
        (Await, Recorder),
        (Launch, Kubelet),
        (Launch, ControllerManager),
        (Launch, Scheduler),
        (Await, ControllerManager),
        (Await, Scheduler),
        (Await, Kubelet),
    ]
};

/// Runs in the new namespaces until asked to end, or until the last user has gone.
///
/// # Errors
/// If the namespaces cannot be made ready or a part does not start; the record says so too.
pub fn supervise(name: &str) -> Result<()> {
    let mut supervisor = Supervisor { record: Record::read(name)?, running: BTreeMap::new() };
    let outcome = supervisor.start();
    if let Err(error) = &outcome {
        supervisor.record.state = State::Failed(error.to_string());
        let _ = supervisor.record.write();
        supervisor.stop();
        return outcome;
    }
    let outcome = supervisor.serve();
    supervisor.stop();
    outcome
}

struct Supervisor {
    record: Record,
    /// The daemons that were started and not yet seen to end.
    running: BTreeMap<i32, String>,
}

impl Supervisor {
    fn start(&mut self) -> Result<()> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| Error::file("become the reaper of", "/proc/self")(error.into()))?;
        self.record.supervisor = ProcessId::own();
        self.record.write()?;
        inside::prepare(&self.record)?;
        for (step, part) in ORDER {
            if self.record.parts.has(part) {
                match step {
                    Step::Launch => self.launch(part, &[])?,
                    Step::Await => self.await_ready(part)?,
                }
            }
        }
        self.record.state = State::Ready;
        self.record.write()
    }

    /// Starts the daemons of `part` that do not run.
    fn launch(&mut self, part: Part, wrapper: &[String]) -> Result<()> {
        for launch in daemons::launches(&self.record, part)? {
            if self.runs(&launch.name) {
                continue;
            }
            let process = self.spawn(&launch, wrapper)?;
            self.running.insert(process.pid, launch.name.clone());
            self.record.daemons.retain(|daemon| daemon.name != launch.name);
            self.record.daemons.push(Daemon { part, name: launch.name, process });
            self.record.write()?;
        }
        Ok(())
    }

    /// Whether the daemon of this name runs. One that is just dying, whose threads have not all gone, is waited
    /// for: its successor needs its sockets and locks.
    fn runs(&mut self, name: &str) -> bool {
        let began = Instant::now();
        loop {
            self.reap();
            let alive = self.record.daemon(name).is_some_and(|daemon| daemon.process.alive());
            let uncollected = self.running.values().any(|running| running == name);
            if alive || !uncollected || began.elapsed() > GRACE {
                return alive;
            }
            std::thread::sleep(TICK);
        }
    }

    fn spawn(&self, launch: &Launch, wrapper: &[String]) -> Result<ProcessId> {
        let log = self.record.places.log(&launch.name);
        let file = File::options().create(true).append(true).open(&log).map_err(Error::file("open", &log))?;
        let copy = file.try_clone().map_err(Error::file("open", &log))?;
        let temporary = self.record.places.data.join("tmp");
        fs::create_dir_all(&temporary).map_err(Error::file("make", &temporary))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(wrapper).arg(&launch.program);
        command.args(&launch.arguments).env("PATH", path(&self.record)).env("TMPDIR", temporary);
        command.current_dir("/").stdin(Stdio::null()).stdout(file).stderr(copy);
        let child = command
            .spawn()
            .map_err(|source| Error::Spawn { program: launch.program.display().to_string(), source })?;
        let pid = i32::try_from(child.id()).unwrap_or_default();
        ProcessId::of(pid).ok_or_else(|| Error::NotReady {
            part: launch.name.clone(),
            seconds: 0,
            cause: super::log_tail(&log),
        })
    }

    fn await_ready(&mut self, part: Part) -> Result<()> {
        let began = Instant::now();
        let mut cause = daemons::ready(&self.record, part);
        while let Err(said) = &cause {
            self.reap();
            let ended =
                self.record.daemons.iter().find(|daemon| daemon.part == part && !daemon.process.alive());
            if let Some(daemon) = ended {
                return Err(Error::NotReady {
                    part: daemon.name.clone(),
                    seconds: began.elapsed().as_secs(),
                    cause: format!("it ended: {}", super::log_tail(&self.record.places.log(&daemon.name))),
                });
            }
            if began.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(Error::NotReady { part: part.to_string(), seconds, cause: said.clone() });
            }
            std::thread::sleep(Duration::from_millis(50));
            cause = daemons::ready(&self.record, part);
        }
        self.once_ready(part)
    }

    /// What a part needs besides its daemons.
    fn once_ready(&self, part: Part) -> Result<()> {
        match part {
            Part::Containerd => images::import(&self.record),
            Part::Apiserver if !self.record.parts.has(Part::ControllerManager) => {
                let began = Instant::now();
                while let Err(error) = daemons::default_service_account(&self.record) {
                    // A conflict: the API server was started again and remembers it.
                    if error.to_string().contains("error: 409") {
                        break;
                    }
                    if began.elapsed() > Duration::from_secs(20) {
                        return Err(error);
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn serve(&mut self) -> Result<()> {
        let path = self.record.places.control();
        let listener = UnixListener::bind(&path).map_err(Error::file("listen on", &path))?;
        listener.set_nonblocking(true).map_err(Error::file("listen on", &path))?;
        let mut users = Users::of(&self.record);
        loop {
            self.reap();
            if users.gone() {
                return Ok(());
            }
            let Ok((stream, _)) = listener.accept() else {
                std::thread::sleep(TICK);
                continue;
            };
            let _ = stream.set_nonblocking(false);
            match control::receive(&stream) {
                Ok(Request::Down) => {
                    control::answer(&stream, None);
                    return Ok(());
                }
                Ok(Request::Start { part, wrapper, node_agent }) => {
                    self.record.node_agent = node_agent.unwrap_or(self.record.node_agent);
                    let outcome = self.launch(part, &wrapper).and_then(|()| self.await_ready(part));
                    control::answer(&stream, outcome.err().map(|error| error.to_string()));
                }
                Err(error) => control::answer(&stream, Some(error.to_string())),
            }
        }
    }

    /// Takes note of every child that has ended, orphans of others included.
    fn reap(&mut self) {
        while let Ok(Some((pid, _))) = rustix::process::wait(WaitOptions::NOHANG) {
            self.running.remove(&pid.as_raw_nonzero().get());
        }
    }

    /// Ends the daemons, the last part first. Containers and shims are ended by their cgroup afterwards.
    fn stop(&mut self) {
        self.record.daemons.sort_by_key(|daemon| daemon.part);
        let daemons: Vec<ProcessId> = self.record.daemons.iter().rev().map(|daemon| daemon.process).collect();
        for process in daemons {
            process.signal(Signal::CONT);
            process.signal(Signal::TERM);
            let began = Instant::now();
            while process.alive() && began.elapsed() < GRACE {
                std::thread::sleep(TICK);
                self.reap();
            }
            process.signal(Signal::KILL);
        }
        self.reap();
    }
}

/// The pinned programs first; Debian's pair must not find the pinned shim.
pub(crate) fn path(record: &Record) -> String {
    match record.containerd {
        super::parts::Containerd::Pinned | super::parts::Containerd::Wardlet => cache::search_path(),
        super::parts::Containerd::Debian => format!("/usr/sbin:/usr/bin:/sbin:/bin:{}", cache::search_path()),
    }
}

/// The keeper: stays outside, starts the supervisor in its namespaces, and cleans up when that has ended,
/// in whatever way.
///
/// # Errors
/// If the supervisor cannot be started or something of it is left.
pub fn keep(name: &str) -> Result<()> {
    let mut record = Record::read(name)?;
    let host_ids = host_ids::Claim::new()?;
    (record.keeper, record.host_ids) = (ProcessId::own(), host_ids.number());
    record.write()?;
    let own = std::env::current_exe().map_err(Error::file("find", "/proc/self/exe"))?;
    let outcome = enter_and_run(&own, name);
    std::thread::spawn(|| {
        loop {
            let _ = rustix::process::wait(WaitOptions::NOHANG);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    super::sweep::sweep(&record::Record::read(name).unwrap_or(record))?;
    outcome
}

/// Orphans of a supervisor that was killed become ours, for the sweep to wait for.
fn enter_and_run(own: &Path, name: &str) -> Result<()> {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(own).args(["internal-enter", name]).stdin(Stdio::null());
    let said = |source| Error::Spawn { program: "setpriv".into(), source };
    command.spawn().map_err(said)?.wait().map_err(said).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_launched_once_and_awaited_after_that() {
        for part in Part::ALL {
            let steps: Vec<_> = ORDER.iter().filter(|(_, one)| *one == part).map(|(step, _)| step).collect();
            assert!(matches!(steps.as_slice(), [Step::Launch, Step::Await]), "{part}: {steps:?}");
        }
    }
}
