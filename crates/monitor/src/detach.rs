use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kernel::{Access, Attributes, DetachedMount, Source, Submounts};
use monitor::{SharedPid, record};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::arguments::{Arguments, DETACHED};

/// What the monitor prints when it listens; anything else is its error.
pub(crate) const READY: &[u8] = b"\n";
/// It has nothing slow to do before it listens.
const PATIENCE: Duration = Duration::from_secs(30);
/// A longer error is cut.
const LONGEST: usize = 4096;

/// Starts the monitor, which inherits nothing but a log file for its messages, and waits until it listens.
pub(crate) fn launch(arguments: &Arguments) -> Result<(), String> {
    hand_nothing_on()?;
    let dir = std::fs::canonicalize(&arguments.dir)
        .map_err(|error| format!("cannot find {}: {error}", arguments.dir.display()))?;
    let own = Own::find(arguments)?;
    let mut command = Command::new(own.path());
    command.arg0("wardlet-monitor").arg(&dir).arg(DETACHED);
    command.arg("--container-program").arg(&arguments.container_program);
    match &arguments.shared_pid {
        None => {}
        Some(SharedPid::Host) => drop(command.args(["--shared-pid", "host"])),
        Some(SharedPid::Userns(path)) => drop(command.arg("--shared-pid").arg(path)),
    }
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log(&dir)?);
    let mut child = command.spawn().map_err(|error| format!("cannot start the monitor: {error}"))?;
    let said = last_words(&mut child);
    if said.as_deref() == Ok(READY) {
        return Ok(());
    }
    // Only this process knows of it: it must not stay, half ready.
    let _ = child.kill();
    let _ = child.wait();
    match said {
        Ok(words) if words.is_empty() => Err("the monitor ended without a message".to_owned()),
        Ok(words) => Err(String::from_utf8_lossy(&words).trim().to_owned()),
        Err(why) => Err(why),
    }
}

/// This program's file, as the monitor runs it.
enum Own {
    Plain(PathBuf),
    /// Through a read-only mount that no other process can reach.
    Sealed(DetachedMount),
}

impl Own {
    /// The first process of a shared PID namespace is a copy of the monitor that all containers of the pod see:
    /// through its `/proc/PID/exe` they could reach this program's file, and overwrite it as the host's root once no
    /// process runs it.
    fn find(arguments: &Arguments) -> Result<Self, String> {
        if arguments.shared_pid.is_none() {
            let found = std::env::current_exe();
            return found.map(Self::Plain).map_err(|error| format!("cannot find this program: {error}"));
        }
        let sealed = || {
            let source = Source::Path(Path::new("/proc/self/exe"));
            let mut mount = DetachedMount::clone_of(source, Submounts::Without)?;
            mount.set(&Attributes { access: Access::ReadOnly, ..Attributes::default() })?;
            Ok(Self::Sealed(mount))
        };
        sealed().map_err(|error: kernel::Error| format!("cannot keep this program's file safe: {error}"))
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::Plain(path) => path.clone(),
            Self::Sealed(mount) => format!("/proc/self/fd/{}", mount.as_fd().as_raw_fd()).into(),
        }
    }
}

/// Sets close-on-exec on every inherited descriptor, so that none reaches the monitor or a container.
fn hand_nothing_on() -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot read /proc/self/fd: {error}");
    for entry in std::fs::read_dir("/proc/self/fd").map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if let Some(number @ 3..) = name.to_str().and_then(|name| name.parse().ok()) {
            kernel::set_cloexec(number).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn log(dir: &Path) -> Result<File, String> {
    let path = dir.join(record::LOG);
    let mut options = File::options();
    options.append(true).create(true).mode(0o600);
    options.open(&path).map_err(|error| format!("cannot open {}: {error}", path.display()))
}

fn last_words(child: &mut Child) -> Result<Vec<u8>, String> {
    let deadline = Instant::now() + PATIENCE;
    let mut said = Vec::new();
    let Some(mut out) = child.stdout.take() else { return Ok(said) };
    while said != READY && said.len() < LONGEST {
        let left = deadline.saturating_duration_since(Instant::now());
        let time = Timespec::try_from(left).map_err(|error| error.to_string())?;
        match poll(&mut [PollFd::new(&out, PollFlags::IN)], Some(&time)) {
            Ok(0) => return Err(format!("the monitor is not ready after {}s", PATIENCE.as_secs())),
            Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(errno) => return Err(format!("cannot wait for the monitor: {errno}")),
        }
        let mut part = [0; 512];
        match out.read(&mut part) {
            Ok(0) => break,
            Ok(length) => said.extend_from_slice(part.get(..length).unwrap_or_default()),
            Err(error) => return Err(format!("cannot hear the monitor: {error}")),
        }
    }
    Ok(said)
}
