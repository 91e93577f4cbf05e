use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use durable::Reserved;
use monitor::job::JobPart;
use monitor::{Failed, ProcessId, StartRequest, Started, Stdin, User, record};
use rustix::fs::{Gid, Uid, fchown};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::helper::Helper;
use super::{Container, Memory, Parent, Running, Stage};
use crate::console::Console;
use crate::log::{Log, Stream};
use crate::oom::Kills;
use crate::slot::Slot;
use crate::streams::{Input, Output, Streams};

/// The reason of a failed start where the helper names none.
const REASON: &str = "RunContainerError";

/// The request that waits for the result of a start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) connection: u64,
    pub(crate) id: u64,
}

/// What a start needs of the monitor.
pub(crate) struct Ground<'a> {
    pub(crate) program: &'a Path,
    pub(crate) hierarchies: &'a Path,
    pub(crate) slot: &'a mut Slot,
}

/// A container whose helper runs.
pub(crate) struct Starting {
    pub(crate) asker: Asker,
    pub(crate) helper: Helper,
    started_record: Reserved,
    job: JobPart,
}

/// The container's ends of its streams; given to the helper and then closed here.
struct Inside {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl Container {
    /// Begins to start it. A failure leaves nothing.
    pub(crate) fn start(
        key: u64,
        wanted: StartRequest,
        asker: Asker,
        mut ground: Ground<'_>,
    ) -> Result<Self, Box<Failed>> {
        let name = wanted.container.clone();
        begin(key, wanted, asker, &mut ground).map_err(|what| Box::new(failure(name, what)))
    }

    /// The helper reports that it runs; `started.json` is written.
    pub(crate) fn has_started(&mut self, pid: u32, user: Option<User>) -> Result<(), Box<Failed>> {
        self.take_console();
        let Stage::Starting(starting) = &self.stage else { return Ok(()) };
        let running = running(pid, starting);
        let recorded = running.and_then(|running| match write_started(pid, user.as_ref(), starting) {
            Ok(()) => Ok(running),
            Err(what) => {
                // After a crash of the monitor no process could find it again.
                let _ = pidfd_send_signal(&running.pidfd, Signal::KILL);
                Err(what)
            }
        });
        match recorded {
            Ok(running) => {
                if let Some(user) = user {
                    own_streams(&self.streams, &starting.job, user.uid, user.gid);
                }
                self.stage = Stage::Running(running);
                Ok(())
            }
            Err(what) => Err(Box::new(failure(self.name.clone(), what))),
        }
    }

    /// It was not started. Its output so far is logged; its preallocated record is removed.
    pub(crate) fn has_failed(mut self) {
        self.streams.drain();
        self.streams.close();
        if let Stage::Starting(starting) = self.stage {
            starting.helper.kill();
        }
    }
}

impl Container {
    /// The failure as the helper reported it.
    pub(crate) fn failure(&self, what: String, hint: Option<String>, reason: Option<String>) -> Failed {
        let reason = reason.unwrap_or_else(|| REASON.to_owned());
        Failed { container: self.name.clone(), what, hint, reason }
    }
}

fn failure(container: String, what: String) -> Failed {
    Failed { container, what, hint: None, reason: REASON.to_owned() }
}

fn begin(key: u64, wanted: StartRequest, asker: Asker, ground: &mut Ground<'_>) -> Result<Container, String> {
    let job = JobPart::read(&wanted.dir).map_err(|error| error.to_string())?;
    if [record::STARTED, record::EXIT].into_iter().any(|name| wanted.dir.join(name).exists()) {
        return Err(format!("container {} was started before", wanted.container));
    }
    let log = wanted.log.as_ref().map(|path| {
        Log::open(path, wanted.limits).map_err(|error| format!("cannot open log {}: {error}", path.display()))
    });
    let log = log.transpose()?;
    let set_aside = |name| Reserved::take(&wanted.dir.join(name), ".tmp").map_err(|error| error.to_string());
    let (started_record, exit_record) = (set_aside(record::STARTED)?, set_aside(record::EXIT)?);
    let memory = Memory {
        kills_before: Kills::read(ground.hierarchies, &job.cgroup),
        ran_out: false,
        cgroup: Some(job.cgroup.clone()),
        hierarchies: ground.hierarchies.to_owned(),
    };
    let console = if wanted.terminal { Some(Console::bind(&job.run_dir)?) } else { None };
    let (mut streams, inside) =
        streams(&wanted, ground).map_err(|errno| format!("cannot make pipes: {errno}"))?;
    streams.log = log;
    own_streams(&streams, &job, job.uid, job.gid);
    let mut command = Command::new(ground.program);
    command.arg("run").arg(&wanted.dir);
    if let Some(console) = &console {
        command.arg("--console").arg(console.path());
    }
    let helper = spawn(command, inside, ground.slot)?;
    Ok(Container {
        key,
        name: wanted.container,
        dir: wanted.dir,
        stage: Stage::Starting(Box::new(Starting { asker, helper, started_record, job })),
        streams,
        console,
        stdin: wanted.stdin,
        memory,
        exit_record: Some(exit_record),
    })
}

fn streams(wanted: &StartRequest, ground: &Ground<'_>) -> Result<(Streams, Inside), Errno> {
    let nothing = || rustix::io::fcntl_dupfd_cloexec(ground.slot.nothing(), 0);
    let mut streams = Streams::default();
    if wanted.terminal {
        return Ok((streams, Inside { stdin: nothing()?, stdout: nothing()?, stderr: nothing()? }));
    }
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let mut output = |stream| {
        let (ours, theirs) = pipe()?;
        ioctl_fionbio(&ours, true)?;
        streams.outputs.push(Output::pipe(ours, stream));
        Ok(theirs)
    };
    let (stdout, stderr) = (output(Stream::Stdout)?, output(Stream::Stderr)?);
    let stdin = match wanted.stdin {
        Stdin::None => nothing()?,
        mode => {
            let (theirs, ours) = pipe()?;
            ioctl_fionbio(&ours, true)?;
            streams.input = Some(Input::pipe(ours, mode));
            theirs
        }
    };
    Ok((streams, Inside { stdin, stdout, stderr }))
}

/// A process may open its own streams again (`/dev/stdout`) if its user owns them. A failed chown is ignored: few
/// containers need it.
fn own_streams(streams: &Streams, job: &JobPart, uid: u32, gid: u32) {
    let owner = match &job.ids {
        None => Some((uid, gid)),
        Some(ids) => ids.on_host(uid, gid),
    };
    let Some((uid, gid)) = owner else { return };
    // Both ends of a pipe are one file.
    let ends = streams.outputs.iter().filter(|output| !output.is_terminal()).map(AsFd::as_fd);
    let input = streams.input.iter().filter(|input| !input.is_terminal()).map(AsFd::as_fd);
    for end in ends.chain(input) {
        let _ = fchown(end, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    }
}

fn spawn(mut command: Command, inside: Inside, slot: &mut Slot) -> Result<Helper, String> {
    let program = command.get_program().to_owned();
    let cannot = |error: std::io::Error| format!("cannot start {}: {error}", program.display());
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| cannot(errno.into()))?;
    ioctl_fionbio(&ours, true).map_err(|errno| cannot(errno.into()))?;
    command.stdin(Stdio::from(inside.stdin));
    command.stdout(Stdio::from(inside.stdout)).stderr(Stdio::from(inside.stderr));
    command.current_dir("/");
    let child = slot.lend(theirs.as_fd(), || command.spawn()).flatten().map_err(cannot)?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or("the helper has no number")?;
    Ok(Helper::new(pid, ours))
}

fn running(pid: u32, starting: &Starting) -> Result<Running, String> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| format!("{pid} is no process"))?;
    let pidfd = pidfd_open(number, PidfdFlags::empty())
        .map_err(|errno| format!("cannot watch the container's process {pid}: {errno}"))?;
    came_from_us(pid, starting)?;
    let helper = (!starting.helper.has_ended()).then_some(starting.helper.pid);
    Ok(Running { pid: number, pidfd, helper, parent: Parent::Us })
}

/// The process must be a child of the helper or of the monitor, and no other process of the host: the monitor signals
/// it and waits for its end.
fn came_from_us(pid: u32, starting: &Starting) -> Result<(), String> {
    let parent = record::parent(pid).map_err(|error| error.to_string())?;
    let helper = starting.helper.pid.as_raw_nonzero().get().unsigned_abs();
    if parent == helper || parent == std::process::id() {
        return Ok(());
    }
    Err(format!("the helper named process {pid}, which it has not started"))
}

fn write_started(pid: u32, user: Option<&User>, starting: &Starting) -> Result<(), String> {
    let write = || -> Result<(), monitor::Error> {
        let process = ProcessId::of(pid)?;
        let started = Started {
            version: record::VERSION,
            pid,
            start_time: process.start_time,
            boot_id: record::boot_id()?,
            started_at: super::now(),
            user: user.cloned(),
        };
        Ok(starting.started_record.write(&serde_json::to_vec(&started).unwrap_or_default())?)
    };
    write().map_err(|error| error.to_string())
}
