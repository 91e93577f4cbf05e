//! The guest's end of the serial port: runs what the host says, one command at a time.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use vm::frame::{CHUNK, Ended, Frame, Hello, Run};

const PORTS: &str = "/sys/class/virtio-ports";
/// What a command left running may hold its outputs open; they are waited for only so long.
const LEFT_OPEN: Duration = Duration::from_secs(2);

type Port = Arc<Mutex<File>>;

/// A command that runs, or ran.
struct Job {
    group: Option<Pid>,
    input: Option<Sender<Vec<u8>>>,
}

fn main() -> io::Result<()> {
    let mut from = File::options().read(true).write(true).open(find_port()?)?;
    let port = Arc::new(Mutex::new(from.try_clone()?));
    send(&port, &Frame::Hello(hello()));
    let mut job = Job { group: None, input: None };
    loop {
        match Frame::read(&mut from)? {
            Frame::Run(run) => job = start(&run, &port),
            Frame::Input(bytes) => drop(job.input.as_ref().map(|input| input.send(bytes))),
            Frame::InputEnd => job.input = None,
            Frame::Kill => drop(job.group.map(|group| kill_process_group(group, Signal::KILL))),
            Frame::PowerOff => return Ok(()),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame that hosts do not send")),
        }
    }
}

/// The port shows up some time after its driver.
fn find_port() -> io::Result<PathBuf> {
    loop {
        for entry in std::fs::read_dir(PORTS).into_iter().flatten().flatten() {
            let name = std::fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            let device = PathBuf::from("/dev").join(entry.file_name());
            if name.trim() == "agent" && device.exists() {
                return Ok(device);
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn hello() -> Hello {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default().trim_matches(['\0', '\n']).to_owned();
    Hello { release: read("/proc/sys/kernel/osrelease"), label: read("/proc/self/attr/current") }
}

/// Fails only when the host is gone, and then the next read ends the agent.
fn send(port: &Port, frame: &Frame) {
    let _ = frame.write(&mut *port.lock().unwrap_or_else(PoisonError::into_inner));
}

fn start(run: &Run, port: &Port) -> Job {
    match spawn(run) {
        Ok(child) => follow(child, port),
        Err(error) => {
            send(port, &Frame::Ended(Ended::NotStarted(error.to_string())));
            Job { group: None, input: None }
        }
    }
}

fn spawn(run: &Run) -> io::Result<Child> {
    let (program, arguments) = run
        .argv
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no program given"))?;
    let mut command = Command::new(program);
    command.args(arguments).envs(run.env.iter().cloned()).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

fn follow(mut child: Child, port: &Port) -> Job {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (input, bytes) = channel::<Vec<u8>>();
    let stdin = child.stdin.take();
    // A thread of its own: a command that reads nothing must not keep us from hearing that it be killed.
    thread::spawn(move || feed(stdin, &bytes));
    let (done, ends) = channel();
    let outputs = [
        child.stdout.take().map(|out| pump(out, Frame::Stdout, port, done.clone())),
        child.stderr.take().map(|err| pump(err, Frame::Stderr, port, done)),
    ];
    let port = Arc::clone(port);
    thread::spawn(move || {
        let ended = wait(&mut child);
        let _ = outputs.iter().flatten().try_for_each(|()| ends.recv_timeout(LEFT_OPEN));
        send(&port, &Frame::Ended(ended));
    });
    Job { group, input: Some(input) }
}

fn feed(stdin: Option<impl Write>, bytes: &Receiver<Vec<u8>>) {
    let Some(mut stdin) = stdin else { return };
    while let Ok(chunk) = bytes.recv() {
        if stdin.write_all(&chunk).is_err() {
            return;
        }
    }
}

fn pump(mut from: impl Read + Send + 'static, kind: fn(Vec<u8>) -> Frame, port: &Port, done: Sender<()>) {
    let port = Arc::clone(port);
    thread::spawn(move || {
        let mut buffer = vec![0u8; CHUNK];
        while let Ok(length) = from.read(&mut buffer) {
            let Some(bytes) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else { break };
            send(&port, &kind(bytes.to_vec()));
        }
        let _ = done.send(());
    });
}

fn wait(child: &mut Child) -> Ended {
    match child.wait() {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Code(code),
            (None, signal) => Ended::Signal(signal.unwrap_or_default()),
        },
        Err(error) => Ended::NotStarted(error.to_string()),
    }
}
