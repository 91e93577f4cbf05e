use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{Client, Error, Result};

/// A pod's monitor that is to be started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// `wardlet-monitor`.
    pub program: PathBuf,
    /// The pod's directory. It exists, and belongs to this pod alone.
    pub dir: PathBuf,
    /// `wardlet-container`.
    pub container_program: PathBuf,
    /// Whether the pod's containers share a PID namespace that the monitor is to keep.
    pub shared_pid: Option<SharedPid>,
}

/// The user namespace that owns a shared PID namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedPid {
    /// The host's user namespace.
    Host,
    /// The user namespace that this path leads to.
    Userns(PathBuf),
}

impl Launch {
    /// Starts it and waits until it listens. It is no child of this process: the program starts itself
    /// once more, in a session of its own, and ends when that one is ready.
    ///
    /// Fails if there is a monitor for this directory already.
    pub fn spawn(&self) -> Result<Client> {
        let mut command = Command::new(&self.program);
        command.arg(&self.dir).arg("--container-program").arg(&self.container_program);
        match &self.shared_pid {
            None => {}
            Some(SharedPid::Host) => drop(command.args(["--shared-pid", "host"])),
            Some(SharedPid::Userns(path)) => drop(command.arg("--shared-pid").arg(path)),
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let done =
            command.output().map_err(|cause| Error::Program { program: self.program.clone(), cause })?;
        if done.status.success() {
            return Client::connect(&self.dir);
        }
        let said = String::from_utf8_lossy(&done.stderr);
        let said = match said.trim() {
            "" => done.status.to_string(),
            words => words.to_owned(),
        };
        Err(Error::NotReady { program: self.program.clone(), dir: self.dir.clone(), said })
    }
}
