//! `verify` works in a child process. A thread that waits for a filesystem of a pod may be impossible to kill (a request that a
//! FUSE server has read and does not answer), and a process with such a thread does not end. The parent ends without it.
//!
//! The child runs the same program with the same words. Its standard input is a pipe to the parent, on which it sends its exit
//! code when everything is written. A child that a filesystem blocks ends when the filesystem responds or is unmounted.

use std::env;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio, exit};
use std::thread::sleep;
use std::time::{Duration, Instant};

use kernel::interrupt::{self, Waited};
use rustix::process::{Pid, Signal, getppid, kill_process};

use crate::Error;

/// Tells the child that it is one: the number of its parent.
const PARENT: &str = "WARDLET_VERIFY_PARENT";

/// How long the parent waits for the end of a child that has sent its exit code.
const REAP_TIMEOUT: Duration = Duration::from_secs(1);

/// The exit code for a question without an answer.
const UNKNOWN: u8 = 2;

/// What SIGINT and SIGTERM do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInterrupt {
    /// They end both processes.
    End,
    /// The child gets them, and ends in its own time.
    Tell,
}

/// Does `work` in a child process and gives its exit code. The child runs this program again with the same words, and so
/// comes here, too: there `work` is called, and `run` does not return. `work` writes the answer, or why there is none, and
/// gives the exit code.
pub fn run(interrupted: OnInterrupt, work: impl FnOnce() -> u8) -> Result<ExitCode, Error> {
    if is_child() {
        finish(work())
    }
    supervise(interrupted)
}

fn is_child() -> bool {
    let parent = getppid().map(|pid| pid.as_raw_pid().to_string());
    parent.is_some() && env::var(PARENT).ok() == parent
}

/// Ends the child. Threads that cannot be killed keep its descriptors open: a reader of the output would wait for them.
fn finish(code: u8) -> ! {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    // Without a parent there is nothing to tell.
    let _ = rustix::io::write(io::stdin(), &[code]);
    exit(code.into())
}

fn supervise(interrupted: OnInterrupt) -> Result<ExitCode, Error> {
    if interrupted == OnInterrupt::Tell {
        interrupt::catch()?;
    }
    let (mut answer, sender) = io::pipe()?;
    let mut command = Command::new("/proc/self/exe");
    command.args(env::args_os().skip(1)).env(PARENT, std::process::id().to_string());
    let mut child = kernel::die_with_parent(command.stdin(Stdio::from(sender))).spawn()?;
    // It holds the sending end of the pipe.
    drop(command);
    if interrupted == OnInterrupt::Tell
        && let Ok(Waited::Interrupted) = interrupt::wait_readable(&answer)
    {
        terminate(&child);
    }
    let mut code = [0];
    match answer.read_exact(&mut code) {
        Ok(()) => {
            reap(&mut child);
            let [code] = code;
            Ok(ExitCode::from(code))
        }
        Err(_) => Ok(code_of(child.wait()?)),
    }
}

fn terminate(child: &Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It has ended already, or ends now.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Where nothing reaps orphans, a child that is not waited for would stay a zombie.
fn reap(child: &mut Child) {
    let since = Instant::now();
    while since.elapsed() < REAP_TIMEOUT && matches!(child.try_wait(), Ok(None)) {
        sleep(Duration::from_millis(1));
    }
}

/// As a shell has it for a child that a signal has ended.
fn code_of(status: ExitStatus) -> ExitCode {
    const SIGNAL: i32 = 128;
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::from(UNKNOWN), ExitCode::from)
}
