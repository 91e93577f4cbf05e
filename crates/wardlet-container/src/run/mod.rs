//! A container made ready in a mount namespace of its own, and started by an engine.

mod adapt;
mod built_in;
mod device_policy;
mod oci;
mod overheard;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use bundle::ready::{Stage, attach, from_host, make_ready};
use bundle::{DeviceRule, Engine, Job, Seccomp, User};
use kernel::{Live, PrivateMountNamespace, Process};
use rustix::fs::Mode;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::files::{self, CONFIG, FILTER, RunDir};
use crate::{host_id, place, seccomp, sweep};

pub(crate) use oci::last_words;

/// The descriptor that the result is written to.
const RESULT: i32 = 3;

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

/// Nobody would ever know of it.
fn sweep_unknown(dir: &Path, started: &Started) -> Result<(), Failure> {
    started.process.signal(Signal::KILL)?;
    sweep::after_somebody(dir, &files::job(dir)?).map(drop)
}

pub(crate) fn start(dir: &Path, console: Option<&Path>) -> Result<Started, Failure> {
    let job = files::job(dir)?;
    let name = files::plain(&job.start.id)?;
    let lock = files::lock(dir)?;
    let Some(_lock) = lock else {
        return Err(Failure::of(format!("container {name} is being started by somebody else")));
    };
    let run_dir = RunDir(job.run_dir.clone());
    if run_dir.engine().exists() || sweep::group(&job)?.exists() {
        return Err(Failure::of(format!("something is left of container {name}")).hinted("delete it first"));
    }
    become_nobody_in_particular()?;
    let outcome = run_dir.make().and_then(|()| in_private(dir, &job, console));
    outcome.map_err(|failure| match sweep::after_failure(&job) {
        Ok(()) => failure,
        Err(left) => Failure { what: format!("{}; and then: {}", failure.what, left.what), ..failure },
    })
}

/// Whatever started us must not show in the container: engines leave groups alone that nobody names, and
/// the permissions of new files, the working directory, keys, and how soon it is killed.
fn become_nobody_in_particular() -> Result<(), Failure> {
    kernel::new_session_keyring()?;
    kernel::not_spared()?;
    // Until the program runs, processes of the container beside which it is started cannot look into this one.
    kernel::set_undumpable()?;
    let failed = |errno| Failure::during("cannot leave the groups of whoever started this", errno);
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
    let made = make_ready(&live, &job.start, held, Stage { dir: &stage, namespace: &namespace })?;
    let config = adapt::with_home(bundle::spec::of(&job.start, &made.ready));
    files::write(&dir.join(CONFIG), config.to_string().as_bytes())?;
    if let Seccomp::Profile(profile) = &job.start.process.seccomp {
        files::write(&dir.join(FILTER), &seccomp::compile(profile)?)?;
    }
    host_id::give_streams(&job.start, &made.ready.user);
    let root = place::Root::of(&made.ready.rootfs)?;
    let device_rules = bundle::spec::all_device_rules(&job.start, &made.ready);
    let prepared = Prepared { dir, run_dir, job, config, console, kernel: &live, device_rules };
    let process = match &job.engine {
        Engine::Libcontainer => {
            let attached =
                attach(&live, &job.start, &made.ready, Stage { dir: &stage, namespace: &namespace })?;
            built_in::start(&prepared, attached)
        }
        Engine::Oci { path, args } => oci::start(&prepared, path, args),
    }?;
    root.note(dir, &process)?;
    Ok(Started { process, user: made.ready.user })
}
