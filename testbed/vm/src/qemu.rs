//! The QEMU process: frames in and out, the console beside them, and its end with ours.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::console::ConsoleLog;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::host;

/// How long the end of the console may lag behind the end of the port.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A running QEMU, gone when this is dropped and when this process dies.
#[derive(Debug)]
pub(crate) struct Qemu {
    input: Sender<Frame>,
    frames: Receiver<Frame>,
    console: Arc<Mutex<ConsoleLog>>,
    process: OwnedFd,
    keeper: Option<JoinHandle<()>>,
}

/// What there was instead of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoFrame {
    Late,
    Gone,
}

/// What the keeper hands over once QEMU runs.
struct Started {
    input: ChildStdin,
    process: OwnedFd,
}

impl Qemu {
    /// Starts `command`, whose standard input and output are the guest's port and whose standard error
    /// is its console. `initrd` stays open until it was read, which is before the first frame.
    ///
    /// A thread of its own starts it and stays as long as it runs: the kernel sends the signal that
    /// ties QEMU's life to ours when the starting *thread* ends, and a test's thread is short-lived.
    pub(crate) fn start(mut command: Command, initrd: File) -> Result<Self> {
        let console = Arc::new(Mutex::new(ConsoleLog::default()));
        let (frame_to, frames) = channel();
        let (started_to, started) = channel();
        let log = Arc::clone(&console);
        let keeper = std::thread::spawn(move || {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let spawned = command.spawn().map_err(|cause| host::started(&command, cause));
            let child = spawned.and_then(|mut child| Ok((hand_over(&mut child)?, child)));
            match child {
                Ok((parts, child)) => {
                    let _ = started_to.send(Ok(parts));
                    keep(child, &frame_to, &log);
                }
                Err(error) => drop(started_to.send(Err(error))),
            }
            drop(initrd);
        });
        let lost = || Error::Ended { doing: "start QEMU".into(), console: ConsoleLog::default() };
        let Started { input, process } = started.recv().map_err(|_| lost())??;
        Ok(Self { input: writer(input), frames, console, process, keeper: Some(keeper) })
    }

    /// Never waits, so that a guest that reads nothing is noticed by the answer that does not come. An
    /// error only when QEMU is gone.
    pub(crate) fn send(&self, frame: Frame) -> std::result::Result<(), NoFrame> {
        self.input.send(frame).map_err(|_| NoFrame::Gone)
    }

    /// The next frame, if one comes before `deadline`.
    pub(crate) fn receive(&self, deadline: Instant) -> std::result::Result<Frame, NoFrame> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.frames.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => NoFrame::Late,
            RecvTimeoutError::Disconnected => NoFrame::Gone,
        })
    }

    pub(crate) fn console(&self) -> ConsoleLog {
        self.console.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for an end that was asked for, or that has come already.
    pub(crate) fn wait(&mut self, limit: Duration) -> std::result::Result<(), NoFrame> {
        let deadline = Instant::now() + limit;
        while self.keeper.as_ref().is_some_and(|keeper| !keeper.is_finished()) {
            if Instant::now() > deadline {
                return Err(NoFrame::Late);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits until the console is complete, if QEMU has ended.
    pub(crate) fn settle(&mut self) {
        let _ = self.wait(LAST_WORDS);
    }

    pub(crate) fn kill(&mut self) {
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ends with QEMU, whose end of the pipe breaks then.
fn writer(mut input: ChildStdin) -> Sender<Frame> {
    let (sender, frames) = channel::<Frame>();
    std::thread::spawn(move || frames.iter().try_for_each(|frame| frame.write(&mut input)));
    sender
}

fn hand_over(child: &mut Child) -> Result<Started> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let process = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    match (child.stdin.take(), process) {
        (Some(input), Some(process)) => Ok(Started { input, process }),
        _ => {
            let _ = child.kill();
            let _ = child.wait();
            Err(Error::Ended { doing: "start QEMU".into(), console: ConsoleLog::default() })
        }
    }
}

/// Passes frames on until QEMU closes its end, then reaps it.
fn keep(mut child: Child, frames: &Sender<Frame>, console: &Arc<Mutex<ConsoleLog>>) {
    let reader = child.stderr.take().map(|stderr| {
        let console = Arc::clone(console);
        std::thread::spawn(move || copy_console(stderr, &console))
    });
    if let Some(stdout) = child.stdout.take() {
        let mut from = BufReader::new(stdout);
        while let Ok(frame) = Frame::read(&mut from) {
            let _ = frames.send(frame);
        }
    }
    let _ = reader.map(JoinHandle::join);
    let _ = child.wait();
}

fn copy_console(mut from: impl Read, console: &Mutex<ConsoleLog>) {
    let mut buffer = [0u8; 4096];
    while let Ok(length) = from.read(&mut buffer) {
        let Some(bytes) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else { return };
        console.lock().unwrap_or_else(PoisonError::into_inner).append(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Qemu {
        let mut command = host::command("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "sh", "-c", script]);
        Qemu::start(command, tempfile::tempfile().unwrap()).unwrap()
    }

    /// What the program writes first on its console.
    fn first_line(qemu: &Qemu) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !qemu.console().text().contains('\n') && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        qemu.console().text().trim().to_owned()
    }

    #[test]
    fn it_outlives_the_thread_that_started_it_and_not_its_handle() {
        let qemu = std::thread::spawn(|| start("echo $$ >&2; exec sleep 1000")).join().unwrap();
        let process = std::path::PathBuf::from(format!("/proc/{}", first_line(&qemu)));
        assert_eq!(qemu.receive(Instant::now() + Duration::from_millis(300)), Err(NoFrame::Late));
        assert!(process.exists());
        drop(qemu);
        assert!(!process.exists());
    }

    #[test]
    fn an_early_end_is_noticed_with_its_last_words() {
        let mut qemu = start("echo out of memory >&2; exit 1");
        assert_eq!(qemu.receive(Instant::now() + Duration::from_secs(20)), Err(NoFrame::Gone));
        qemu.settle();
        assert_eq!(qemu.console().text(), "out of memory\n");
    }
}
