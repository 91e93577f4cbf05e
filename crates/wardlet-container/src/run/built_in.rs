//! libcontainer, for creating and starting only: what it would add to a container later would lack user
//! namespace and filter.

use std::collections::HashMap;
use std::fs::File;
use std::io::{PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use bundle::Space;
use kernel::confine::{Limit, Program};
use kernel::{IdMaps, Kernel, Process};
use libcontainer::container::builder::ContainerBuilder;
use libcontainer::oci_spec::runtime::Spec;
use libcontainer::syscall::syscall::SyscallType;
use libcontainer::workload::{Executor, ExecutorError, ExecutorSetEnvsError, ExecutorValidationError};
use rustix::fs::fstatfs;

use super::{Prepared, adapt, overheard};
use crate::exec::limits;
use crate::failure::{Failure, program, with_causes};
use crate::files::{self, CONFIG};

const ENGINE: &str = "libcontainer";
/// The magic number of the filesystem of processes.
const PROC: i64 = 0x9fa0;

/// Creates and starts the container, which has this program's standard streams.
pub(super) fn start(prepared: &Prepared<'_>) -> Result<Process, Failure> {
    let overheard = overheard::listen()?;
    create_and_start(prepared).map_err(|trouble| match trouble {
        Trouble::Ours(failure) => failure,
        Trouble::Engine(words) => Failure::said(ENGINE, &overheard.explain(&words)),
    })
}

/// What can go wrong, and who has more to say about it.
enum Trouble {
    Ours(Failure),
    Engine(String),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Ours(failure)
    }
}

impl From<kernel::Error> for Trouble {
    fn from(error: kernel::Error) -> Self {
        Self::Ours(error.into())
    }
}

fn create_and_start(prepared: &Prepared<'_>) -> Result<Process, Trouble> {
    let said = |error: &dyn std::error::Error| Trouble::Engine(with_causes(error));
    let mut held = Vec::new();
    let mut config = adapt::for_built_in(prepared.config.clone(), &mut held)?;
    let users = new_users(prepared)?;
    if let Some(users) = &users {
        adapt::with_users(&mut config, users);
    }
    let state = prepared.run_dir.engine();
    files::write(&state.join(CONFIG), config.to_string().as_bytes())?;
    let (mut heard, told) = pipe().map_err(|cause| Failure::during("cannot make a pipe", cause))?;
    let limits = limits(&prepared.config)?;
    for limit in &limits {
        limit
            .make_room()
            .map_err(|errno| Failure::during("cannot limit what the container may use", errno))?;
    }
    let label = prepared.job.start.process.selinux_label.clone();
    let last_step = LastStep { report: Rc::new(told), label, limits };
    let builder = ContainerBuilder::new(prepared.job.start.id.clone(), SyscallType::default())
        .with_executor(last_step.clone())
        .with_root_path(&state)
        .and_then(|builder| builder.with_console_socket(prepared.console).validate_id());
    let builder = builder.map_err(|error| said(&error))?.as_init(&state).with_systemd(false);
    let mut container = builder.build().map_err(|error| said(&error))?;
    let pid = container.pid().and_then(|pid| u32::try_from(pid.as_raw()).ok());
    let pid = pid.ok_or_else(|| Failure::of(format!("{ENGINE} did not say which process it started")))?;
    let process = Process::open(pid)?;
    container.start().map_err(|error| said(&error))?;
    drop(last_step);
    drop(container);
    let mut words = String::new();
    heard.read_to_string(&mut words).map_err(|cause| Failure::during("cannot hear of the program", cause))?;
    if words.is_empty() { Ok(process) } else { Err(Failure::said(ENGINE, &words).into()) }
}

/// libcontainer would have systemd make the control group of a container with a new user namespace: so
/// that is made here, and it gets one that exists.
fn new_users(prepared: &Prepared<'_>) -> Result<Option<OwnedFd>, Failure> {
    let (Space::New, Some(ids)) = (&prepared.job.start.spaces.user, &prepared.job.start.ids) else {
        return Ok(None);
    };
    let users = prepared.kernel.user_namespace(&IdMaps::new(&ids.uids, &ids.gids))?;
    let fd = users.as_fd().try_clone_to_owned();
    fd.map(Some).map_err(|cause| Failure::during("cannot hold a user namespace", cause))
}

/// What is done in the container right before its program: its label, its limits and the program
/// itself.
#[derive(Clone)]
struct LastStep {
    /// Closed when the program runs; told why if it does not.
    report: Rc<PipeWriter>,
    label: Option<String>,
    limits: Vec<Limit>,
}

impl LastStep {
    fn run(&self, spec: &Spec) -> Result<(), String> {
        if let Some(label) = &self.label {
            set_label(label).map_err(|cause| format!("cannot set the label {label}: {cause}"))?;
        }
        for limit in &self.limits {
            limit.settle().map_err(|errno| format!("cannot limit what it may use: {errno}"))?;
        }
        let process = spec.process().as_ref().ok_or("there is no process")?;
        let words = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        let wanted = Program::new(&words(process.args()), &words(process.env()));
        match wanted.map_or_else(|error| error, |wanted| wanted.become_it()) {
            kernel::Error::Program { name, errno } => Err(program(&name, errno.raw_os_error())),
            error => Err(error.to_string()),
        }
    }
}

/// The container's /proc is looked at before it is trusted.
fn set_label(label: &str) -> std::io::Result<()> {
    let mut file = File::options().write(true).open("/proc/thread-self/attr/exec")?;
    if fstatfs(&file)?.f_type != PROC {
        return Err(std::io::Error::other("/proc is not what it should be"));
    }
    file.write_all(label.as_bytes())
}

impl Executor for LastStep {
    fn exec(&self, spec: &Spec) -> Result<(), ExecutorError> {
        let failed = self.run(spec).err().unwrap_or_default();
        let _ = self.report.as_ref().write_all(failed.as_bytes());
        Err(ExecutorError::Other(failed))
    }

    /// Whether the program can be run is found out by running it.
    fn validate(&self, _: &Spec) -> Result<(), ExecutorValidationError> {
        Ok(())
    }

    /// The program gets the environment as it is written; that of this process is of no use then.
    fn setup_envs(&self, _: HashMap<String, String>) -> Result<(), ExecutorSetEnvsError> {
        Ok(())
    }
}
