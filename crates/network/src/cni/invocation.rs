use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde_json::Value;

use super::outcome::complaint;
use super::record::Record;
use crate::error::{Error, Result};

/// How long a plugin may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The most that is read of a plugin's output.
const MOST: u64 = 1 << 20;

/// One run of a plugin.
pub(super) struct Invocation<'a> {
    pub(super) plugin: &'a str,
    pub(super) command: &'static str,
    pub(super) record: &'a Record,
    pub(super) input: Value,
}

impl Invocation<'_> {
    /// Runs it to its end and returns its output. Input and output are memfds, so that neither side waits for the
    /// other.
    pub(super) fn run(&self, log: &File) -> Result<Vec<u8>> {
        let program = find_plugin(self.plugin, &self.record.bin_dirs)?;
        let failed = |error: io::Error| self.failed(&error.to_string());
        let mut printed = memory().map_err(failed)?;
        let child = self.start(&program, &printed, log).map_err(failed)?;
        let ended_well = self.wait(child)?;
        let output = read(&mut printed).map_err(failed)?;
        if ended_well {
            return Ok(output);
        }
        let complained = log.try_clone().and_then(|mut log| read(&mut log)).map_err(failed)?;
        Err(self.failed(&complaint(&output, &String::from_utf8_lossy(&complained))))
    }

    fn start(&self, program: &Path, printed: &File, log: &File) -> io::Result<Child> {
        let mut input = memory()?;
        input.write_all(self.input.to_string().as_bytes())?;
        input.seek(SeekFrom::Start(0))?;
        let dirs = std::env::join_paths(&self.record.bin_dirs).map_err(io::Error::other)?;
        Command::new(program)
            .env("CNI_COMMAND", self.command)
            .env("CNI_CONTAINERID", &self.record.sandbox)
            .env("CNI_NETNS", self.netns())
            .env("CNI_IFNAME", "eth0")
            .env("CNI_ARGS", &self.record.arguments)
            .env("CNI_PATH", dirs)
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(printed.try_clone()?))
            .stderr(Stdio::from(log.try_clone()?))
            .process_group(0)
            .spawn()
    }

    /// `CNI_NETNS` is empty for a namespace that is gone.
    fn netns(&self) -> &Path {
        if self.record.netns.exists() { &self.record.netns } else { Path::new("") }
    }

    /// Whether it succeeded. One that does not end in time is killed with its process group.
    fn wait(&self, mut child: Child) -> Result<bool> {
        let failed = |error: io::Error| self.failed(&error.to_string());
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| failed(errno.into()))?;
        let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        let ended = loop {
            match poll(&mut fds, Some(&patience)) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other.map_err(|errno| failed(errno.into()))?,
            }
        };
        if ended == 0 {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let status = child.wait().map_err(failed)?;
        if ended == 0 {
            let (plugin, command) = (self.plugin.to_owned(), self.command);
            return Err(Error::CniTimeout { plugin, command, waited: PATIENCE });
        }
        Ok(status.success())
    }

    fn failed(&self, said: &str) -> Error {
        Error::CniPlugin { plugin: self.plugin.to_owned(), command: self.command, said: said.to_owned() }
    }
}

/// The program of this name in the first directory that has one.
pub(super) fn find_plugin(name: &str, dirs: &[PathBuf]) -> Result<PathBuf> {
    let found = dirs.iter().map(|dir| dir.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| Error::NoCniPlugin { plugin: name.to_owned(), dirs: dirs.to_vec() })
}

fn memory() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("cni", MemfdFlags::CLOEXEC)?.into())
}

fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}
