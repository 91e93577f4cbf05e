//! One more process in a container that its engine keeps outside of this kernel (gVisor): only the engine can start
//! it.
//!
//! The engine's process on this kernel lives as long as the process inside and ends with its exit code, but killing it
//! does not kill the process inside: a client that gives up sends a message, or closes its connection, and this
//! program has the engine kill the process.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use container::Job;
use kernel::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Signal, getpid, set_child_subreaper};
use serde_json::{Value, json};

use super::request::Request;
use super::{configured::Configured, socket};
use crate::failure::Failure;
use crate::files::{self, CONFIG, RunDir};
use crate::run::last_words;

/// How long a process may take to end that was killed.
const DYING: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// What engines call the file with the process's number as the container counts.
const INNER_PID: &str = "internal-pid-file";

/// An engine that is a program, by path and what it is always given.
#[derive(Clone, Copy)]
pub(super) struct Engine<'a> {
    pub(super) path: &'a Path,
    pub(super) args: &'a [String],
}

/// One exec: its engine, and the files that it is talked about by. They are gone with it.
struct Exec<'a> {
    engine: Engine<'a>,
    id: &'a str,
    root: PathBuf,
    dir: PathBuf,
}

/// Has the engine run what is asked for, and tells what becomes of it.
pub(super) fn serve(
    job: &Job,
    engine: Engine<'_>,
    request: &Request,
    socket: &OwnedFd,
) -> Result<u8, Failure> {
    let root = RunDir(job.run_dir.clone()).engine();
    let dir = root.join(format!("exec-{}", std::process::id()));
    fs::create_dir(&dir)
        .map_err(|cause| Failure::during("cannot make a place for the engine's words", cause))?;
    let exec = Exec { engine, id: &job.start.id, root, dir };
    exec.run(request, socket)
}

impl Drop for Exec<'_> {
    fn drop(&mut self) {
        // The rest is removed with the container.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Exec<'_> {
    fn run(&self, request: &Request, socket: &OwnedFd) -> Result<u8, Failure> {
        let config: Value = files::json(&self.root.join(CONFIG))?;
        let configured: Configured = files::json(&self.root.join(CONFIG))?;
        let process = process(&config, request, &configured)?;
        files::write(&self.dir.join("process.json"), process.to_string().as_bytes())?;
        let console = request.tty().then(|| self.console()).transpose()?;
        let started = self.start(request)?;
        let master = console.as_ref().map(super::console::handed_over).transpose()?;
        let handed: Vec<_> = master.iter().map(AsFd::as_fd).collect();
        let told = json!({ "started": { "pid": started.pid(), "byEngine": true } });
        if socket::tell(socket, &told, &handed).is_err() {
            self.kill();
        }
        drop(master);
        self.attend(&started, socket)?;
        let (end, code) = super::wait(&started)?;
        let _ = socket::tell(socket, &json!({ "exited": end }), &[]);
        Ok(code)
    }

    /// The engine's program ends when the process runs, and leaves one behind that is ours to wait for.
    fn start(&self, request: &Request) -> Result<Process, Failure> {
        set_child_subreaper(Some(getpid()))
            .map_err(|errno| Failure::during("cannot take in what the engine leaves", errno))?;
        let status = self.command(request)?.status().map_err(|cause| self.failed(cause))?;
        let name = || self.engine.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !status.success() {
            let words = last_words(&self.dir.join("log.json")).unwrap_or_else(|| status.to_string());
            return Err(Failure::said(&name(), &words));
        }
        let pid = fs::read_to_string(self.dir.join("pid")).ok().and_then(|text| text.trim().parse().ok());
        let pid =
            pid.ok_or_else(|| Failure::of(format!("{} did not say which process it started", name())))?;
        Ok(Process::open(pid)?)
    }

    fn failed(&self, cause: impl std::fmt::Display) -> Failure {
        Failure::during(&format!("cannot run {}", self.engine.path.display()), cause)
    }

    fn base(&self) -> Command {
        let mut command = Command::new(self.engine.path);
        command.args(self.engine.args).arg("--root").arg(&self.root);
        command.arg("--log").arg(self.dir.join("log.json")).args(["--log-format", "json"]);
        command
    }

    fn command(&self, request: &Request) -> Result<Command, Failure> {
        let mut command = self.base();
        command.args(["exec", "--detach", "--process"]).arg(self.dir.join("process.json"));
        command.arg("--pid-file").arg(self.dir.join("pid"));
        if self.knows_inner_pids()? {
            command.arg(format!("--{INNER_PID}")).arg(self.inner_pid());
        }
        if request.tty() {
            command.arg("--console-socket").arg(self.console_path());
        }
        command.arg(self.id);
        Ok(command)
    }

    /// Asked of the engine itself, which says so where it explains this command.
    fn knows_inner_pids(&self) -> Result<bool, Failure> {
        let mut command = Command::new(self.engine.path);
        let said = command.args(["exec", "--help"]).stdin(Stdio::null()).output();
        let said = said.map_err(|cause| self.failed(cause))?;
        let words = [said.stdout, said.stderr].concat();
        Ok(String::from_utf8_lossy(&words).contains(INNER_PID))
    }

    fn inner_pid(&self) -> PathBuf {
        self.dir.join("inner-pid")
    }

    fn console_path(&self) -> PathBuf {
        self.dir.join("tty")
    }

    fn console(&self) -> Result<UnixListener, Failure> {
        UnixListener::bind(self.console_path())
            .map_err(|cause| Failure::during("cannot listen for the process's terminal", cause))
    }

    /// Waits until it has ended; kills it if the client sends anything or disconnects.
    fn attend(&self, process: &Process, socket: &OwnedFd) -> Result<(), Failure> {
        if !hears(socket, process)? {
            return Ok(());
        }
        // What is not read would be all that the other side hears of our last word.
        let _ = recv(socket, &mut [0; 64], RecvFlags::DONTWAIT);
        self.kill();
        let mut ends = [PollFd::new(process, PollFlags::IN)];
        if poll(&mut ends, Some(&DYING)) == Ok(0) {
            // The engine does not end it: what stands for it here goes, and it goes with the container.
            process.signal(Signal::KILL)?;
        }
        Ok(())
    }

    /// One that the engine cannot name goes with the container.
    fn kill(&self) {
        let Ok(inner) = fs::read_to_string(self.inner_pid()) else { return };
        let mut command = self.base();
        command.args(["kill", "--pid", inner.trim(), self.id, "KILL"]);
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// Waits for a word on the socket, for its end, or for that of the process; whether it was one of the first two.
fn hears(socket: &OwnedFd, process: &Process) -> Result<bool, Failure> {
    let mut fds = [PollFd::new(socket, PollFlags::IN), PollFd::new(process, PollFlags::IN)];
    loop {
        match poll(&mut fds, None) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::during("cannot wait for the process", errno)),
            Ok(_) => break,
        }
    }
    let [word, _] = &fds;
    Ok(!word.revents().is_empty())
}

/// The first process's, but for what is asked for.
fn process(config: &Value, request: &Request, configured: &Configured) -> Result<Value, Failure> {
    let mut process = config.get("process").cloned().unwrap_or_else(|| json!({}));
    let Some(fields) = process.as_object_mut() else {
        return Err(Failure::of("the container's configuration has no process"));
    };
    fields.insert("args".into(), json!(request.args));
    fields.insert("env".into(), json!(request.environment(configured, None)));
    fields.insert("terminal".into(), json!(request.tty()));
    if let Some(cwd) = &request.cwd {
        fields.insert("cwd".into(), json!(cwd));
    }
    if let Some(user) = &request.user {
        let (Some(uid), None) = (user.uid, &user.name) else {
            let what = "a user can only be given by number where the engine keeps the container outside of this kernel";
            return Err(Failure::of(what));
        };
        let user = json!({ "uid": uid, "gid": user.gid.unwrap_or_default(), "additionalGids": user.groups });
        fields.insert("user".into(), user);
    }
    Ok(process)
}
