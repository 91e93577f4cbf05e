//! A container prepared in a mount namespace of its own, and started by an engine.

mod adapt;
mod built_in;
mod device_policy;
mod oci;
mod overheard;
mod scope;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use container::prepare::{Stage, attach, from_host, prepare_rootfs};
use container::{DeviceRule, Engine, Job, Seccomp, User};
use kernel::{Live, PrivateMountNamespace, Process};
use rustix::fs::Mode;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::files::{self, CONFIG, FILTER, RunDir};
use crate::{host_id, place, seccomp, sweep};

pub(crate) use oci::last_words;
use scope::Holder;
pub(crate) use scope::{HOLD, hold};

/// The descriptor that the result is written to.
const RESULT: i32 = 3;
/// The hint where a process was killed that only starts the container.
const TOO_LITTLE: &str =
    "the kernel may have killed what starts the container: raise a very low memory limit";

/// A container that is ready to be started.
pub(crate) struct Prepared<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) run_dir: RunDir,
    pub(crate) job: &'a Job,
    pub(crate) config: Value,
    pub(crate) console: Option<&'a Path>,
    pub(crate) kernel: &'a Live,
    /// Which devices it may use.
    pub(crate) device_rules: Vec<DeviceRule>,
}

/// A container that was started.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) user: User,
}

/// Starts the container of `dir` and writes one line about it.
pub(crate) fn command(dir: &Path, console: Option<&Path>) -> u8 {
    let result = match kernel::inherited(RESULT) {
        Ok(result) => File::from(result),
        Err(error) => return crate::told(&error.into()),
    };
    let outcome = start(dir, console);
    let (line, code) = match &outcome {
        Ok(started) => {
            let line = json!({ "started": { "pid": started.process.pid(), "user": started.user } });
            (line, 0)
        }
        Err(failure) => (json!({ "failed": failure }), 1),
    };
    match (&result).write_all(format!("{line}\n").as_bytes()) {
        Ok(()) => code,
        Err(cause) => {
            if let Err(failure) = outcome.map_or(Ok(()), |started| sweep_unknown(dir, &started)) {
                crate::told(&failure);
            }
            crate::told(&Failure::during("cannot tell the result", cause))
        }
    }
}

/// Kills a process that could not be recorded: no later call would find it.
fn sweep_unknown(dir: &Path, started: &Started) -> Result<(), Failure> {
    started.process.signal(Signal::KILL)?;
    sweep::after_any_start(dir, &files::job(dir)?).map(drop)
}

pub(crate) fn start(dir: &Path, console: Option<&Path>) -> Result<Started, Failure> {
    let job = files::job(dir)?;
    let name = files::plain(&job.start.id)?;
    let lock = files::lock(dir)?;
    let Some(_lock) = lock else {
        return Err(Failure::of(format!("container {name} is being started by another process")));
    };
    let run_dir = RunDir(job.run_dir.clone());
    if run_dir.engine().exists() || sweep::group(&job)?.exists() {
        return Err(Failure::of(format!("something is left of container {name}")).hinted("delete it first"));
    }
    drop_inherited_state()?;
    let outcome = run_dir.make().and_then(|()| in_private(dir, &job, console));
    outcome.map_err(|failure| match sweep::after_failure(&job) {
        Ok(()) => failure,
        Err(left) => Failure { what: format!("{}; and then: {}", failure.what, left.what), ..failure },
    })
}

/// Drops inherited state that must not show in the container: keyring, oom_score_adj, supplementary groups, umask and
/// working directory. Engines leave supplementary groups as they are if none are configured.
fn drop_inherited_state() -> Result<(), Failure> {
    kernel::new_session_keyring()?;
    kernel::reset_oom_score_adj()?;
    // Until the program runs, processes of the container beside which it is started cannot look into this one.
    kernel::set_undumpable()?;
    let failed = |errno| Failure::during("cannot drop the inherited supplementary groups", errno);
    rustix::thread::set_thread_groups(&[]).map_err(failed)?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    rustix::process::chdir("/").map_err(|errno| Failure::during("cannot go to /", errno))
}

fn in_private(dir: &Path, job: &Job, console: Option<&Path>) -> Result<Started, Failure> {
    let (live, run_dir) = (Live::default(), RunDir(job.run_dir.clone()));
    if job.start.ids.is_some() {
        files::passable(&run_dir.stage())?;
    }
    let held = from_host(&live, &job.start)?;
    let namespace = PrivateMountNamespace::enter()?;
    let stage = run_dir.stage();
    let made = prepare_rootfs(&live, &job.start, held, Stage { dir: &stage, namespace: &namespace })?;
    let config = adapt::with_home(container::spec::of(&job.start, &made.ready));
    files::write(&dir.join(CONFIG), config.to_string().as_bytes())?;
    if let Seccomp::Profile(profile) = &job.start.process.seccomp {
        files::write(&dir.join(FILTER), &seccomp::compile(profile)?)?;
    }
    host_id::give_streams(&job.start, &made.ready.user);
    let root = place::Root::of(&made.ready.rootfs)?;
    let device_rules = container::spec::all_device_rules(&job.start, &made.ready);
    let prepared = Prepared { dir, run_dir, job, config, console, kernel: &live, device_rules };
    // Any engine finds the container's cgroup there, and puts the container's process into it.
    let mut holder = Holder::of(&job.start.cgroup)?;
    let process = match &job.engine {
        Engine::Libcontainer => {
            let attached =
                attach(&live, &job.start, &made.ready, Stage { dir: &stage, namespace: &namespace })?;
            built_in::start(&prepared, attached)
        }
        Engine::Oci { path, args } => oci::start(&prepared, path, args),
    }?;
    holder.as_mut().map_or(Ok(()), Holder::is_there)?;
    drop(holder);
    root.note(dir, &process)?;
    Ok(Started { process, user: made.ready.user })
}
