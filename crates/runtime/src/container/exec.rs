//! One more process in a container, by `wardlet-container exec`.

use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use cri::ExecSyncResponse;
use monitor::packet::{self, Received, Sent};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Signal, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncRead;
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::{called, running};
use crate::drain::Last;
use crate::error::{Error, Result};
use crate::node::Node;
use crate::readiness::Readiness;
use crate::store::{Container, locked};

/// Where the helper finds its end of the conversation.
const CONVERSATION: i32 = 3;
/// What is kept of both streams together, so that one message can carry it; the rest is read and dropped.
const LONGEST_OUTPUT: usize = cri::LONGEST_MESSAGE - 4096;
/// How long a killed process is waited for: only one that the kernel keeps from dying takes longer.
const DYING: Duration = Duration::from_secs(5);

/// What is to be run.
#[derive(Debug, Serialize)]
pub(crate) struct ExecCommand {
    pub(crate) args: Vec<String>,
    pub(crate) env: Option<Vec<String>>,
    pub(crate) tty: bool,
    pub(crate) size: Option<(u16, u16)>,
    pub(crate) user: Option<container::WantedUser>,
    pub(crate) cwd: Option<String>,
}

impl ExecCommand {
    pub(crate) fn new(args: Vec<String>) -> Self {
        Self { args, env: None, tty: false, size: None, user: None, cwd: None }
    }
}

/// What the helper tells.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum HelperReport {
    Started(Started),
    Failed(Failure),
    Exited(Ending),
}

/// Further fields of the helper's report.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    /// The engine runs it, on a kernel that is not ours: then no process of this one is it.
    #[serde(default)]
    by_engine: bool,
}

#[derive(Debug, Deserialize)]
struct Failure {
    what: String,
    hint: Option<String>,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Ending {
    Code(i32),
    Signal(i32),
}

impl Ending {
    /// As shells count.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// The standard streams of a process.
pub(crate) struct Streams {
    pub(crate) stdin: Stdio,
    pub(crate) stdout: Stdio,
    pub(crate) stderr: Stdio,
}

/// How a process is killed.
enum Killing {
    /// There is none yet but the helper.
    Helper,
    /// By descriptor.
    Process(OwnedFd),
    /// By the helper, on request or when this process exits.
    ByHelper,
}

/// A process that was started in a container. It is killed when this is dropped.
pub(crate) struct Exec {
    pub(crate) child: Child,
    /// The master's end of its terminal, if it has one.
    pub(crate) terminal: Option<OwnedFd>,
    killing: Killing,
    socket: Readiness,
    /// Kept because the helper reports it once, and a cancelled wait may be repeated.
    ending: Option<Ending>,
    what: String,
}

impl Exec {
    /// Starts it, and returns once it runs.
    pub(crate) async fn start(
        node: &Node,
        container: &Container,
        wanted: &ExecCommand,
        streams: Streams,
    ) -> Result<Self> {
        running(container)?;
        let what = format!("run {:?} in {}", wanted.args.join(" "), called(container));
        let failed = |cause: String| Error::Step { step: what.clone(), cause, hint: None };
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|errno| failed(errno.to_string()))?;
        let mut command = Command::new(&node.settings.programs.container);
        command.arg("exec").arg(&container.places.state);
        command.stdin(streams.stdin).stdout(streams.stdout).stderr(streams.stderr);
        command
            .fd_mappings(vec![FdMapping { parent_fd: theirs, child_fd: CONVERSATION }])
            .map_err(|cause| failed(cause.to_string()))?;
        let child = command.spawn().map_err(|cause| failed(cause.to_string()))?;
        // It holds the other end: for as long as it lives, the conversation would not end.
        drop(command);
        let socket = Readiness::of(ours).map_err(|cause| failed(cause.to_string()))?;
        let mut exec = Self { child, terminal: None, killing: Killing::Helper, socket, ending: None, what };
        exec.ask(wanted).await?;
        match exec.next().await? {
            (HelperReport::Started(started), mut descriptors) => {
                exec.killing = match (started.by_engine, descriptors.pop()) {
                    (false, Some(process)) => Killing::Process(process),
                    (_, last) => {
                        descriptors.extend(last);
                        Killing::ByHelper
                    }
                };
                exec.terminal = descriptors.pop();
                Ok(exec)
            }
            (HelperReport::Failed(failure), _) => {
                Err(Error::Step { step: exec.what.clone(), cause: failure.what, hint: failure.hint })
            }
            (HelperReport::Exited(_), _) => Err(exec.failed("it ended before it began")),
        }
    }

    fn failed(&self, cause: impl Into<String>) -> Error {
        Error::Step { step: self.what.clone(), cause: cause.into(), hint: None }
    }

    async fn ask(&self, wanted: &ExecCommand) -> Result<()> {
        let bytes = serde_json::to_vec(wanted).map_err(|cause| self.failed(cause.to_string()))?;
        if bytes.len() > packet::LARGEST {
            return Err(Error::invalid("cmd", format!("{} bytes are too many for a command", bytes.len())));
        }
        match packet::send(&self.socket, &bytes, &[])? {
            Sent::Not => Err(self.failed("the helper takes no command")),
            _ => Ok(()),
        }
    }

    async fn next(&self) -> Result<(HelperReport, Vec<OwnedFd>)> {
        loop {
            match packet::receive(&self.socket)? {
                Received::Packet(packet) => {
                    let told = serde_json::from_slice(&packet.bytes)
                        .map_err(|cause| self.failed(format!("the helper's answer: {cause}")))?;
                    return Ok((told, packet.descriptors));
                }
                Received::Nothing => {
                    self.socket.wait().await.map_err(|cause| self.failed(cause.to_string()))?;
                }
                Received::End => return Err(self.failed("the helper is gone")),
                Received::Oversized => return Err(self.failed("the helper's answer is too large")),
            }
        }
    }

    /// Waits until it has ended. Cancel-safe: the wait can be repeated.
    pub(crate) async fn ended(&mut self) -> Result<Ending> {
        let ending = match self.ending {
            Some(ending) => ending,
            None => match self.next().await? {
                (HelperReport::Exited(ending), _) => ending,
                (HelperReport::Failed(failure), _) => return Err(self.failed(failure.what)),
                (HelperReport::Started(_), _) => return Err(self.failed("it was started twice")),
            },
        };
        self.ending = Some(ending);
        // No other task waits for the helper.
        let _ = self.child.wait().await;
        Ok(ending)
    }

    /// Kills it, and returns when it has been reaped.
    ///
    /// The helper is its parent: if that were killed first, a subreaper would reap the process later.
    pub(crate) async fn kill(&mut self) {
        self.signal();
        if timeout(DYING, self.ended()).await.is_err() {
            // It may have ended by itself.
            let _ = self.child.kill().await;
        }
    }

    fn signal(&mut self) {
        // One that has ended needs no signal.
        match &self.killing {
            Killing::Helper => drop(self.child.start_kill()),
            Killing::Process(process) => drop(pidfd_send_signal(process, Signal::KILL)),
            Killing::ByHelper => drop(packet::send(&self.socket, b"{}", &[])),
        }
    }
}

/// The helper ends when the process does.
impl Drop for Exec {
    fn drop(&mut self) {
        if self.ending.is_none() {
            self.signal();
        }
    }
}

/// Runs a command to its end and returns what it wrote.
pub(crate) async fn sync(
    node: Arc<Node>,
    id: String,
    cmd: Vec<String>,
    seconds: i64,
) -> Result<ExecSyncResponse> {
    if cmd.is_empty() {
        return Err(Error::invalid("cmd", "there is nothing to run"));
    }
    let container = node.store.container(&id)?;
    let words = cmd.join(" ");
    let streams = Streams { stdin: Stdio::null(), stdout: Stdio::piped(), stderr: Stdio::piped() };
    let limit = u64::try_from(seconds).ok().filter(|seconds| *seconds != 0);
    let deadline = limit.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    let late = || Error::Deadline {
        what: format!("{words:?} in {}", called(&container)),
        seconds: limit.unwrap_or_default(),
    };
    let wanted = ExecCommand::new(cmd);
    let start = Exec::start(&node, &container, &wanted, streams);
    let mut exec = until(deadline, start).await.ok_or_else(late)??;
    let room = Arc::new(Mutex::new(LONGEST_OUTPUT));
    let out = Kept::of(exec.child.stdout.take(), &room);
    let err = Kept::of(exec.child.stderr.take(), &room);
    let Some(ending) = until(deadline, exec.ended()).await else {
        exec.kill().await;
        return Err(late());
    };
    let ending = ending?;
    let (stdout, stderr) = tokio::join!(out.text(), err.text());
    Ok(ExecSyncResponse { stdout, stderr, exit_code: ending.code() })
}

/// What comes of it, unless the time is over before.
async fn until<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

/// The first bytes of an output. Reading ends when this is dropped: a grandchild may keep the pipe open and write for
/// ever.
struct Kept {
    bytes: Arc<Mutex<Vec<u8>>>,
    reading: Option<JoinHandle<()>>,
    /// Its writer has ended.
    over: Arc<Notify>,
}

impl Kept {
    /// As long as there is room, which it may share with others.
    fn of(stream: Option<impl AsyncRead + Unpin + Send + 'static>, room: &Arc<Mutex<usize>>) -> Self {
        let (bytes, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        let into = Keeping { bytes: Arc::clone(&bytes), room: Arc::clone(room), over: Arc::clone(&over) };
        Self { bytes, reading: stream.map(|stream| tokio::spawn(into.keep(stream))), over }
    }

    /// All output of a process that has ended, however late this is called.
    async fn text(mut self) -> Vec<u8> {
        self.over.notify_one();
        if let Some(reading) = &mut self.reading {
            let _ = reading.await;
        }
        std::mem::take(&mut *locked(&self.bytes))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(reading) = &self.reading {
            reading.abort();
        }
    }
}

/// Where it goes.
struct Keeping {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: Arc<Mutex<usize>>,
    over: Arc<Notify>,
}

impl Keeping {
    async fn keep(self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 32 << 10];
        let mut last = Last::default();
        while let Some(read @ 1..) = last.read(&mut stream, &mut buffer, &self.over).await {
            let mut left = locked(&self.room);
            let taken = read.min(*left);
            *left -= taken;
            locked(&self.bytes).extend(buffer.iter().take(taken));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    #[test]
    fn what_the_helper_tells_is_understood() {
        let told = |text: &str| serde_json::from_str::<HelperReport>(text).unwrap();
        assert!(matches!(told(r#"{"started":{"pid":7}}"#), HelperReport::Started(_)));
        assert!(matches!(told(r#"{"exited":{"code":3}}"#), HelperReport::Exited(Ending::Code(3))));
        assert!(matches!(told(r#"{"exited":{"signal":9}}"#), HelperReport::Exited(Ending::Signal(9))));
        let failed = r#"{"failed":{"what":"no","hint":null,"reason":"StartError"}}"#;
        assert!(matches!(told(failed), HelperReport::Failed(Failure { what, hint: None }) if what == "no"));
        assert_eq!(Ending::Signal(9).code(), 137);
    }

    #[tokio::test]
    async fn nobody_reads_on_for_a_caller_that_has_given_up() {
        let (ours, theirs) = tokio::io::duplex(64);
        let room = Arc::new(Mutex::new(LONGEST_OUTPUT));
        drop(Kept::of(Some(ours), &room));
        // A reader that goes on would take this for ever; one that is gone has closed its end.
        let mut theirs = theirs;
        let written = timeout(Duration::from_secs(30), async {
            while tokio::io::AsyncWriteExt::write_all(&mut theirs, &[1; 64]).await.is_ok() {}
        });
        written.await.unwrap();
    }

    /// A pipe that something is in, and a reader that does not know of it yet: its server had no processor since.
    struct Unheard(u8);

    impl AsyncRead for Unheard {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            self.0 += 1;
            match self.0 {
                1 => return Poll::Pending,
                2 => into.put_slice(b"PING"),
                _ => {}
            }
            Poll::Ready(Ok(()))
        }
    }

    /// The time that grandchildren are waited for was over before the pipe was looked at, and all of a short
    /// command's output was lost.
    #[tokio::test]
    async fn what_a_command_wrote_is_kept_by_a_server_that_comes_late() {
        let room = Arc::new(Mutex::new(LONGEST_OUTPUT));
        let kept = Kept::of(Some(Unheard(0)), &room);
        tokio::task::yield_now().await;
        assert_eq!(kept.text().await, b"PING");
    }

    #[tokio::test]
    async fn output_beyond_the_limit_is_read_and_dropped() {
        let text = vec![b'a'; LONGEST_OUTPUT];
        let room = Arc::new(Mutex::new(LONGEST_OUTPUT));
        let (one, two) = (text.clone(), text);
        let one = Kept::of(Some(std::io::Cursor::new(one)), &room);
        let two = Kept::of(Some(std::io::Cursor::new(two)), &room);
        let (one, two) = tokio::join!(one.text(), two.text());
        assert_eq!(one.len() + two.len(), LONGEST_OUTPUT, "both go into one message");
    }
}
