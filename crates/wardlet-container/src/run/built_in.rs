//! libcontainer, for creating and starting only: what it would add to a container later would lack user
//! namespace and filter.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write, pipe};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::Path;
use std::rc::Rc;

use container::NamespaceSpec;
use container::prepare::Attached;
use kernel::confine::{Limit, Program};
use kernel::{DetachedMount, IdMaps, Kernel, LastLink, Namespace, Process, Within, in_mount_namespace_of};
use libcontainer::container::builder::ContainerBuilder;
use libcontainer::oci_spec::runtime::Spec;
use libcontainer::syscall::syscall::SyscallType;
use libcontainer::workload::{Executor, ExecutorError, ExecutorSetEnvsError, ExecutorValidationError};
use rustix::fs::{Mode, OFlags, fstatfs, openat};
use serde_json::Value;

use super::{Prepared, TOO_LITTLE, adapt, device_policy, overheard};
use crate::exec::limits;
use crate::failure::{Failure, program, with_causes};
use crate::files::{self, CONFIG};
use crate::sweep;

const ENGINE: &str = "libcontainer";
/// What it says when one of its processes has ended without a word.
const SILENT: &str = "BrokenChannel";
/// The magic number of the filesystem of processes.
const PROC: i64 = 0x9fa0;
/// Far more descriptors than the engine opens at a time. The kernel hands out the lowest free number.
const MANY: RawFd = 1024;

/// Creates and starts the container, which has this program's standard streams.
pub(super) fn start(prepared: &Prepared<'_>, attached: Attached) -> Result<Process, Failure> {
    let overheard = overheard::listen()?;
    create_and_start(prepared, attached).map_err(|trouble| match trouble {
        Trouble::Ours(failure) => failure,
        Trouble::Engine(words) => {
            let failure = Failure::said(ENGINE, &overheard.explain(&words));
            if words.contains(SILENT) { failure.hinted(TOO_LITTLE) } else { failure }
        }
    })
}

/// A failure of our own, or one of the engine, whose log says more about it.
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

fn create_and_start(prepared: &Prepared<'_>, attached: Attached) -> Result<Process, Trouble> {
    let said = |error: &dyn std::error::Error| Trouble::Engine(with_causes(error));
    let mut held = Vec::new();
    let mut wanted = adapt::with_mounts(prepared.config.clone(), attached.left);
    // Before there is a process of it among the pod's: one that is stopped there shows the host's network in /proc.
    for path in adapt::take_namespaces(&mut wanted, &["network", "ipc", "uts"]) {
        Namespace::open(&path)?.join()?;
    }
    let group = sweep::group(prepared.job)?;
    let mut config = adapt::for_built_in(wanted, &mut held, group.dirs())?;
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
    let last_step = LastStep {
        report: Rc::new(told.into()),
        label: Label::new(prepared.job.start.process.selinux_label.as_deref())?,
        limits,
        program: program_of(&prepared.config)?,
        highest: highest_descriptor()?.saturating_add(MANY),
    };
    let builder = ContainerBuilder::new(prepared.job.start.id.clone(), SyscallType::default())
        .with_executor(last_step.clone())
        .with_root_path(&state)
        .and_then(|builder| builder.with_console_socket(prepared.console).validate_id());
    let builder = builder.map_err(|error| said(&error))?.as_init(&state).with_systemd(false);
    let mut container = builder.build().map_err(|error| said(&error))?;
    let pid = container.pid().and_then(|pid| u32::try_from(pid.as_raw()).ok());
    let pid = pid.ok_or_else(|| Failure::of(format!("{ENGINE} did not say which process it started")))?;
    let process = Process::open(pid)?;
    device_policy::set(&group, &prepared.device_rules)?;
    if let Some(dev) = attached.dev {
        cover_dev(&process, dev)?;
    }
    container.start().map_err(|error| said(&error))?;
    drop(last_step);
    drop(container);
    let mut words = String::new();
    heard.read_to_string(&mut words).map_err(|cause| Failure::during("cannot hear of the program", cause))?;
    if words.is_empty() { Ok(process) } else { Err(Failure::said(ENGINE, &words).into()) }
}

/// libcontainer would have systemd make the cgroup of a container with a new user namespace: so
/// that is made here, and it gets one that exists.
fn new_users(prepared: &Prepared<'_>) -> Result<Option<OwnedFd>, Failure> {
    let (NamespaceSpec::New, Some(ids)) = (&prepared.job.start.namespaces.user, &prepared.job.start.ids)
    else {
        return Ok(None);
    };
    let users = prepared.kernel.user_namespace(&IdMaps::new(&ids.uids, &ids.gids))?;
    let fd = users.as_fd().try_clone_to_owned();
    fd.map(Some).map_err(|cause| Failure::during("cannot hold a user namespace", cause))
}

/// Attaches the pod's own `/dev` over the engine's, in a container that is made and not started.
fn cover_dev(process: &Process, dev: DetachedMount) -> Result<(), Failure> {
    let attached = in_mount_namespace_of(process, move |root| {
        let point = root.node(Path::new("dev"), Within::NoLinks, LastLink::Keep)?;
        dev.attach_at(point.as_fd())
    });
    Ok(attached.and_then(|result| result)?)
}

/// The program with its environment. The engine gets neither: it would look up a missing home by the image's own
/// libraries, while the host's files are within its reach.
fn program_of(config: &Value) -> Result<Program, Failure> {
    let words = |name: &str| -> Vec<String> {
        let list = config.pointer(name).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Ok(Program::new(&words("/process/args"), &words("/process/env"))?)
}

fn highest_descriptor() -> Result<RawFd, Failure> {
    let failed = |cause| Failure::during("cannot list the open descriptors", cause);
    let names = fs::read_dir("/proc/thread-self/fd").map_err(failed)?.flatten();
    let numbers = names.filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    Ok(numbers.max().unwrap_or_default())
}

/// An SELinux label for the program, and the host's /proc to set it by. The container's own is not asked: what is there
/// may be a file of the image.
#[derive(Debug)]
struct Label {
    label: String,
    proc: OwnedFd,
}

impl Label {
    fn new(label: Option<&str>) -> Result<Option<Rc<Self>>, Failure> {
        let Some(label) = label else { return Ok(None) };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open("/proc", flags, Mode::empty())
            .map_err(|errno| Failure::during("cannot open /proc", errno))?;
        Ok(Some(Rc::new(Self { label: label.to_owned(), proc })))
    }

    fn set(&self) -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.proc, "thread-self/attr/exec", flags, Mode::empty())?);
        if fstatfs(&file)?.f_type != PROC {
            return Err(std::io::Error::other("/proc is not what it should be"));
        }
        file.write_all(self.label.as_bytes())
    }
}

/// What is done in the container right before its program: its label, its limits and the program
/// itself.
#[derive(Clone)]
struct LastStep {
    /// Closed on exec of the program; gets the error if that fails.
    report: Rc<OwnedFd>,
    label: Option<Rc<Label>>,
    limits: Vec<Limit>,
    program: Program,
    /// No open descriptor has a higher number.
    highest: RawFd,
}

impl LastStep {
    fn confine(&self) -> Result<(), String> {
        if let Some(label) = &self.label {
            label.set().map_err(|cause| format!("cannot set the label {}: {cause}", label.label))?;
        }
        for limit in &self.limits {
            limit.settle().map_err(|errno| format!("cannot limit what it may use: {errno}"))?;
        }
        Ok(())
    }
}

/// Why the program does not run.
fn explain(error: kernel::Error) -> String {
    match error {
        kernel::Error::Program { name, errno } => program(&name, errno.raw_os_error()),
        error => error.to_string(),
    }
}

impl Executor for LastStep {
    fn exec(&self, _: &Spec) -> Result<(), ExecutorError> {
        match self.confine() {
            Ok(()) => self.program.become_alone(&self.report, self.highest, explain),
            Err(failed) => {
                let _ = rustix::io::write(&*self.report, failed.as_bytes());
                Err(ExecutorError::Other(failed))
            }
        }
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
