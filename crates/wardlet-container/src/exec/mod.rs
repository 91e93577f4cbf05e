//! One more process in a container that runs, with the restrictions of its first one.

mod by_engine;
mod configured;
mod console;
mod groups;
mod request;
mod socket;
mod started;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use container::{Engine, Job, User};
use kernel::confine::{Confined, Identity, Labels, Program, Streams};
use kernel::{Dir, Process};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, WaitOptions, waitpid};
use serde_json::json;

use crate::failure::Failure;
use crate::files::{self, CONFIG};
use crate::host_id;
use crate::place::{self, Place};
use configured::Configured;
use request::Request;

pub(crate) use configured::limits;
pub(crate) use started::running;

/// The descriptor that the other side talks to.
const SOCKET: i32 = 3;

/// Executes the one request that comes in, reports its result, and ends with the exit code of the process.
pub(crate) fn command(dir: &Path) -> u8 {
    let socket = match kernel::inherited(SOCKET) {
        Ok(socket) => socket,
        Err(error) => return crate::told(&error.into()),
    };
    match serve(dir, &socket) {
        Ok(code) => code,
        Err(failure) => {
            let code = failure.code();
            match socket::tell(&socket, &json!({ "failed": failure }), &[]) {
                Ok(()) => code,
                Err(failure) => crate::told(&failure),
            }
        }
    }
}

fn serve(dir: &Path, socket: &OwnedFd) -> Result<u8, Failure> {
    let request = Request::read(&socket::hear(socket)?)?;
    let job = files::job(dir)?;
    let init =
        running(dir)?.ok_or_else(|| Failure::of(format!("container {} does not run", job.start.id)))?;
    if place::of(dir)? == Place::Outside {
        let Engine::Oci { path, args } = &job.engine else {
            return Err(Failure::of(format!("container {} is not where it was started", job.start.id)));
        };
        return by_engine::serve(&job, by_engine::Engine { path, args }, &request, socket);
    }
    let configured: Configured = files::json(&dir.join(CONFIG))?;
    let confined = confine(dir, &job, Wanted { request, configured, init })?;
    let started = confined.start()?;
    let told = json!({ "started": { "pid": started.process.pid() } });
    // The pidfd comes last: a client that gives up kills this process and no other, even if the PID was reused.
    let handed = started.master.iter().map(AsFd::as_fd).chain([started.process.as_fd()]);
    let sent = socket::tell(socket, &told, &handed.collect::<Vec<_>>());
    drop(started.master);
    if sent.is_err() {
        // The client is gone.
        started.process.signal(rustix::process::Signal::KILL)?;
    }
    let (end, code) = wait(&started.process)?;
    let _ = socket::tell(socket, &json!({ "exited": end }), &[]);
    Ok(code)
}

struct Wanted {
    request: Request,
    configured: Configured,
    init: Process,
}

fn confine(dir: &Path, job: &Job, wanted: Wanted) -> Result<Confined, Failure> {
    let Wanted { request, configured, init } = wanted;
    let (user, home) = match &request.user {
        None => (configured.user(), None),
        Some(asked) => container::user::resolve(&root_of(&init)?, asked)?,
    };
    if request.streams() == Streams::Inherited {
        host_id::give_streams(&job.start, &user);
    }
    let env = request.environment(&configured, home.as_deref());
    let seccomp = configured.filter(dir)?;
    Ok(Confined {
        cgroups: groups::of(&init)?,
        identity: identity(&user, &configured),
        capabilities: configured.capabilities()?,
        limits: configured.limits(seccomp)?,
        labels: Labels { selinux: configured.selinux(), apparmor: configured.apparmor() },
        cwd: request.cwd.clone().unwrap_or_else(|| configured.cwd()),
        streams: request.streams(),
        program: Program::new(&request.args, &env)?,
        beside: init,
    })
}

fn identity(user: &User, configured: &Configured) -> Identity {
    Identity { uid: user.uid, gid: user.gid, groups: user.groups.clone(), umask: configured.umask() }
}

/// The container's `/`, in which nothing leads outside.
fn root_of(init: &Process) -> Result<Dir, Failure> {
    let path = format!("/proc/{}/root", init.pid());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(&path, flags, Mode::empty())
        .map_err(|errno| Failure::during(&format!("cannot open {path}"), errno))?;
    // Still running: the number was not used anew before.
    if !init.is_running()? {
        return Err(Failure::of("the container has ended"));
    }
    Ok(Dir::at(fd.as_fd(), Path::new(&path))?)
}

/// How it ended, as text and as a code.
fn wait(process: &Process) -> Result<(serde_json::Value, u8), Failure> {
    let status = loop {
        match waitpid(Pid::from_raw(process.pid()), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(Some((_, status))) => break status,
            Ok(None) | Err(_) => {
                return Err(Failure::of("the process has ended, and its exit status is lost"));
            }
        }
    };
    let number = |value: i32| u8::try_from(value).unwrap_or(u8::MAX);
    match (status.exit_status(), status.terminating_signal()) {
        (_, Some(signal)) => Ok((json!({ "signal": signal }), 128u8.saturating_add(number(signal)))),
        (Some(code), None) => Ok((json!({ "code": code }), number(code))),
        (None, None) => Err(Failure::of("the process has ended, and its exit status is lost")),
    }
}
