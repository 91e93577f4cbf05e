use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::boot;
use crate::cache::{Cache, Installed};
use crate::console::{Cause, ConsoleLog};
use crate::error::{Error, Result};
use crate::exec::{Exec, Output, Stream};
use crate::frame::{CHUNK, Ended, Frame, Hello};
use crate::host;
use crate::payload::Payload;
use crate::qemu::{NoFrame, Qemu};
use crate::series::{Mode, Series};

/// The guest's address in QEMU's user network.
pub const ADDRESS: &str = "10.0.2.15";
/// The driver is a module of this kernel, and there is no DHCP client.
const SET_UP_NETWORK: &str = "modprobe virtio_net && ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up && \
                              ip route add default via 10.0.2.2";

/// How long the agent may take to say that a killed command is gone, and the guest to switch off.
const GRACE: Duration = Duration::from_secs(10);

/// Process 1 of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Init {
    /// A shell script, on a machine with SELinux.
    Script,
    /// systemd, on a machine without SELinux.
    Systemd,
}

/// What to boot.
#[derive(Debug, Clone)]
pub struct Options {
    /// The kernel.
    pub series: Series,
    /// Process 1.
    pub init: Init,
    /// Its SELinux, at first: [`Vm::set_mode`] changes it.
    pub mode: Mode,
    /// Files that are there from the start.
    pub payloads: Vec<Payload>,
    /// The guest's memory, which also holds its files.
    pub memory_mib: u32,
    /// How long the boot may take.
    pub boot_limit: Duration,
    /// The disk of `/var`, made by [`new_disk`]: it keeps what is written for the next boot. Without one, what is
    /// written is forgotten.
    pub disk: Option<PathBuf>,
    /// The file of a network namespace of the host. The guest reaches what is reached there from `eth0`, which has the
    /// address [`ADDRESS`]. Without one, the guest has `lo` only.
    pub network: Option<PathBuf>,
}

impl Options {
    /// The script, enforcing, 1 GiB, two minutes to boot.
    #[must_use]
    pub fn new(series: Series) -> Self {
        let boot_limit = Duration::from_secs(120);
        Self {
            series,
            init: Init::Script,
            mode: Mode::Enforcing,
            payloads: vec![],
            memory_mib: 1024,
            boot_limit,
            disk: None,
            network: None,
        }
    }
}

/// A booted guest. Shared between threads, it runs one command at a time.
#[derive(Debug)]
pub struct Vm {
    qemu: Mutex<Qemu>,
    hello: Hello,
    boot_time: Duration,
}

impl Vm {
    /// Boots a guest and waits until it takes commands.
    pub fn boot(options: &Options) -> Result<Self> {
        let installed = installed(options.series)?;
        let initrd = boot::initrd(&installed, options)?;
        let began = Instant::now();
        let command = boot::command(&installed, options, &initrd);
        let mut qemu = Qemu::start(command, initrd)?;
        match qemu.receive(began + options.boot_limit) {
            Ok(Frame::Hello(hello)) => {
                let vm = Self { qemu: Mutex::new(qemu), hello, boot_time: began.elapsed() };
                options.network.as_ref().map_or(Ok(()), |_| vm.set_up_network())?;
                Ok(vm)
            }
            Ok(_) => Err(verdict(&mut qemu, NoFrame::Gone, "boot", options.boot_limit)),
            Err(none) => Err(verdict(&mut qemu, none, "boot", options.boot_limit)),
        }
    }

    /// The guest's kernel release and the label that commands run with.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// From the start of QEMU until it took commands.
    pub fn boot_time(&self) -> Duration {
        self.boot_time
    }

    /// Everything on the console so far.
    pub fn console(&self) -> ConsoleLog {
        self.qemu().console()
    }

    /// Runs a program with arguments to its end.
    pub fn exec<S: AsRef<str>>(&self, argv: &[S]) -> Result<Output> {
        self.run(&Exec::new(argv))
    }

    /// Runs a command to its end and keeps what it writes.
    pub fn run(&self, exec: &Exec) -> Result<Output> {
        let (mut stdout, mut stderr) = (vec![], vec![]);
        let ended = self.watch(exec, &mut |stream, bytes| match stream {
            Stream::Stdout => stdout.extend_from_slice(bytes),
            Stream::Stderr => stderr.extend_from_slice(bytes),
        })?;
        Ok(Output { ended, stdout, stderr })
    }

    /// Runs a command to its end and passes on what it writes, when it does.
    pub fn watch(&self, exec: &Exec, on: &mut dyn FnMut(Stream, &[u8])) -> Result<Ended> {
        let mut qemu = self.qemu();
        let deadline = Instant::now() + exec.limit;
        let ended = send(&qemu, exec).and_then(|()| follow(&qemu, deadline, on));
        match ended {
            Ok(Ended::NotStarted(cause)) => {
                let program = exec.run.argv.first().cloned().unwrap_or_default();
                Err(Error::NotStarted { program, cause })
            }
            Ok(ended) => Ok(ended),
            Err(NoFrame::Late) => Err(overran(&mut qemu, exec)),
            Err(NoFrame::Gone) => {
                Err(verdict(&mut qemu, NoFrame::Gone, &format!("run {}", exec.line()), exec.limit))
            }
        }
    }

    /// Copies a file of the host into the guest, with its permissions.
    pub fn put(&self, host: &Path, guest: &str) -> Result<()> {
        let content = fs::read(host).map_err(Error::file("read", host))?;
        let permissions = fs::metadata(host).map_err(Error::file("read", host))?.permissions().mode();
        self.write(guest, permissions & 0o7777, content)
    }

    /// Writes a file in the guest.
    pub fn write(&self, guest: &str, permissions: u32, content: Vec<u8>) -> Result<()> {
        let script = r#"mkdir -p "$(dirname "$0")" && cat >"$0" && chmod "$1" "$0""#;
        let exec = Exec::new(&["sh", "-c", script, guest, &format!("{permissions:o}")]).input(content);
        let output = self.run(&exec)?;
        if output.success() { Ok(()) } else { Err(guest_file("write", guest, &output)) }
    }

    /// Copies everything in a directory of the guest into a directory of the host.
    pub fn fetch(&self, guest: &str, host: &Path) -> Result<()> {
        let output = self.exec(&["tar", "-c", "-C", guest, "."])?;
        if !output.success() {
            return Err(guest_file("read", guest, &output));
        }
        fs::create_dir_all(host).map_err(Error::file("make", host))?;
        unpack(&output.stdout, host)
    }

    /// Switches the guest's SELinux.
    pub fn set_mode(&self, mode: Mode) -> Result<()> {
        let path = "/sys/fs/selinux/enforce";
        let output = self.exec(&["sh", "-c", &format!("printf {} >{path}", mode.digit())])?;
        if output.success() { Ok(()) } else { Err(guest_file("write", path, &output)) }
    }

    fn set_up_network(&self) -> Result<()> {
        let output = self.exec(&["sh", "-c", SET_UP_NETWORK])?;
        if output.success() { Ok(()) } else { Err(guest_file("set up", "eth0", &output)) }
    }

    /// Switches it off and returns the whole console log. Dropping it is a loss of power: what the guest has not written
    /// to its disk yet is lost.
    pub fn shutdown(self) -> Result<ConsoleLog> {
        let mut qemu = self.qemu.into_inner().unwrap_or_else(PoisonError::into_inner);
        let off = qemu.send(Frame::PowerOff).and_then(|()| qemu.wait(GRACE));
        off.map_err(|none| verdict(&mut qemu, none, "switch off", GRACE))?;
        match qemu.console().cause() {
            Cause::Unknown => Ok(qemu.console()),
            _ => Err(verdict(&mut qemu, NoFrame::Gone, "switch off", GRACE)),
        }
    }

    fn qemu(&self) -> MutexGuard<'_, Qemu> {
        self.qemu.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes an empty disk for `/var` of guests with a kernel of this series.
pub fn new_disk(series: Series, at: &Path) -> Result<()> {
    let empty = installed(series)?.var();
    host::run(host::command("cp").args(["--sparse=always", "--"]).arg(&empty).arg(at)).map(drop)
}

fn installed(series: Series) -> Result<Installed> {
    let cache = Cache::of_user()?;
    cache.newest(series).ok_or_else(|| Error::NotInstalled { series, cache: cache.path().to_owned() })
}

fn send(qemu: &Qemu, exec: &Exec) -> std::result::Result<(), NoFrame> {
    qemu.send(Frame::Run(exec.run.clone()))?;
    for chunk in exec.input.chunks(CHUNK) {
        qemu.send(Frame::Input(chunk.to_vec()))?;
    }
    qemu.send(Frame::InputEnd)
}

fn follow(
    qemu: &Qemu,
    deadline: Instant,
    on: &mut dyn FnMut(Stream, &[u8]),
) -> std::result::Result<Ended, NoFrame> {
    loop {
        match qemu.receive(deadline)? {
            Frame::Stdout(bytes) => on(Stream::Stdout, &bytes),
            Frame::Stderr(bytes) => on(Stream::Stderr, &bytes),
            Frame::Ended(ended) => return Ok(ended),
            _ => return Err(NoFrame::Gone),
        }
    }
}

/// Kills a command that took too long; if even that gets no answer, it is the guest that hangs.
fn overran(qemu: &mut Qemu, exec: &Exec) -> Error {
    let seconds = exec.limit.as_secs();
    let command = exec.line();
    let killed = qemu.send(Frame::Kill).and_then(|()| follow(qemu, Instant::now() + GRACE, &mut |_, _| ()));
    match killed {
        Ok(_) => Error::Overran { command, seconds, console: qemu.console().tail() },
        Err(none) => verdict(qemu, none, &format!("run {command}"), exec.limit + GRACE),
    }
}

/// Why no frame came. A guest that hangs is killed: it would answer no later request.
fn verdict(qemu: &mut Qemu, none: NoFrame, doing: &str, waited: Duration) -> Error {
    match none {
        NoFrame::Gone => qemu.settle(),
        NoFrame::Late => qemu.kill(),
    }
    let log = qemu.console();
    let (doing, console) = (doing.to_owned(), log.tail());
    match (log.cause(), none) {
        (Cause::Panic(cause), _) => Error::Panic { cause, console },
        (Cause::Oops(cause), _) => Error::Oops { cause, console },
        (Cause::Unknown, NoFrame::Late) => Error::Hang { seconds: waited.as_secs(), doing, console },
        (Cause::Unknown, NoFrame::Gone) => Error::Ended { doing, console },
    }
}

fn guest_file(verb: &'static str, path: &str, output: &Output) -> Error {
    Error::GuestFile { verb, path: path.to_owned(), said: output.words().trim().to_owned() }
}

fn unpack(archive: &[u8], into: &Path) -> Result<()> {
    let mut tar = host::command("tar");
    tar.args(["-x", "--no-same-owner", "-C"]).arg(into).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tar.spawn().map_err(|cause| host::started(&tar, cause))?;
    if let Some(mut input) = child.stdin.take() {
        // When tar ends early, its own words say more than the broken pipe.
        let _ = input.write_all(archive);
    }
    let output = child.wait_with_output().map_err(|cause| host::started(&tar, cause))?;
    host::succeeded(&tar, output).map(drop)
}
