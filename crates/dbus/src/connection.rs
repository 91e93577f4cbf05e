//! A connection: to a message bus, or to a program's own socket.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::geteuid;

use crate::error::{Error, Result};
use crate::message::{self, Body, Call, FIXED, Received, Signal};

const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";
const OWNER_CHANGED: &str = "NameOwnerChanged";
/// The most files that the kernel passes at once.
const MOST_FILES: usize = 253;
/// The most signals that are kept while a call waits for its answer.
const MOST_SIGNALS: usize = 256;
/// How many bytes are read at once.
const CHUNK: usize = 4096;

/// A program whose signals are taken.
#[derive(Debug)]
struct Source {
    name: String,
    /// The unique name of the program that owns the name; `None` while there is none.
    owner: Option<String>,
}

/// A connection that has one call open at a time.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    serial: u32,
    /// What was received and not read yet.
    bytes: Vec<u8>,
    files: VecDeque<OwnedFd>,
    /// Signals that came before the answer of a call.
    signals: VecDeque<Signal>,
    /// The program whose signals are taken; `None`: those of all.
    source: Option<Source>,
    /// How long an answer may take.
    patience: Duration,
    until: Instant,
}

impl Connection {
    /// Connects to a program that speaks D-Bus on a socket of its own, without a bus.
    ///
    /// # Errors
    /// If it does not answer within `patience`, or does not accept this user.
    pub fn private(socket: &Path, patience: Duration) -> Result<Self> {
        let mut connection = Self::open(socket, patience)?;
        connection.authenticate("")?;
        Ok(connection)
    }

    /// Connects to a message bus. Its programs can send files.
    ///
    /// # Errors
    /// If it does not answer within `patience`, or does not accept this user.
    pub fn bus(socket: &Path, patience: Duration) -> Result<Self> {
        let mut connection = Self::open(socket, patience)?;
        connection.authenticate("NEGOTIATE_UNIX_FD\r\n")?;
        let agreed = connection.line()?;
        if !agreed.starts_with("AGREE_UNIX_FD") {
            return Err(Error::Protocol("it does not send files"));
        }
        connection.call_bus("Hello", &Body::default())?;
        Ok(connection)
    }

    fn open(socket: &Path, patience: Duration) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_write_timeout(Some(patience))?;
        let (bytes, files, signals) = (Vec::new(), VecDeque::new(), VecDeque::new());
        let until = Instant::now() + patience;
        Ok(Self { stream, serial: 0, bytes, files, signals, source: None, patience, until })
    }

    /// The other side knows the caller by the socket; the user ID is only repeated.
    ///
    /// The end of the authentication is sent with its beginning, and nothing before the answer: systemd does not look at a
    /// message that it has read together with `BEGIN` until more arrives.
    fn authenticate(&mut self, more: &str) -> Result<()> {
        let digits = geteuid().as_raw().to_string();
        let hex: String = digits.bytes().map(|digit| format!("{digit:02x}")).collect();
        self.stream.write_all(format!("\0AUTH EXTERNAL {hex}\r\n{more}BEGIN\r\n").as_bytes())?;
        match self.line()?.starts_with("OK ") {
            true => Ok(()),
            false => Err(Error::Protocol("it does not accept this user")),
        }
    }

    /// A line of the authentication.
    fn line(&mut self) -> Result<String> {
        loop {
            if let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.bytes.len() > 1024 {
                return Err(Error::Protocol("a line of the authentication is too long"));
            }
            self.fill()?;
        }
    }

    /// Calls a method of the bus itself.
    fn call_bus(&mut self, method: &str, body: &Body) -> Result<message::Reply> {
        self.call(&Call { path: BUS_PATH, destination: BUS, interface: BUS, method, body })
    }

    /// Has the bus send the signals that a rule of its own language matches.
    ///
    /// # Errors
    /// If the bus refuses the rule, or does not answer.
    pub fn add_match(&mut self, rule: &str) -> Result<()> {
        self.call_bus("AddMatch", &Body::default().text(rule)).map(drop)
    }

    /// Takes signals only of the program that owns this name, also if that changes. Any program can send one to this
    /// connection without a rule that matches it.
    ///
    /// # Errors
    /// If the bus refuses it, or does not answer.
    pub fn receive_only_from(&mut self, name: &str) -> Result<()> {
        self.signals.clear();
        self.source = Some(Source { name: name.to_owned(), owner: None });
        self.add_match(&format!(
            "type='signal',sender='{BUS}',path='{BUS_PATH}',interface='{BUS}',member='{OWNER_CHANGED}',arg0='{name}'"
        ))?;
        let owner = match self.call_bus("GetNameOwner", &Body::default().text(name)) {
            Ok(answer) => answer.texts().into_iter().next(),
            // It may come later.
            Err(Error::Refused { .. }) => None,
            Err(error) => return Err(error),
        };
        if let Some(source) = &mut self.source {
            source.owner = owner;
        }
        Ok(())
    }

    /// Calls a method, and waits for its answer.
    ///
    /// # Errors
    /// [`Error::Refused`] if the call is refused; else if the connection is lost or nothing answers in time.
    pub fn call(&mut self, call: &Call<'_>) -> Result<message::Reply> {
        self.serial += 1;
        self.until = Instant::now() + self.patience;
        self.stream.write_all(&call.message(self.serial))?;
        loop {
            match self.receive()? {
                Received::Returned { serial, reply } if serial == self.serial => return Ok(reply),
                Received::Refused { serial, name, words } if serial == self.serial => {
                    return Err(Error::Refused { name, words });
                }
                Received::Signal(signal) => {
                    if let Some(signal) = self.taken(signal) {
                        self.keep(signal);
                    }
                }
                _ => {}
            }
        }
    }

    /// A signal that is taken; `None` for one of another program, or of the bus.
    fn taken(&mut self, signal: Signal) -> Option<Signal> {
        let Some(source) = &mut self.source else { return Some(signal) };
        // The bus writes the sender itself.
        if signal.sender == BUS && signal.interface == BUS && signal.member == OWNER_CHANGED {
            if let [name, _, owner] = signal.body.texts().as_slice()
                && *name == source.name
            {
                source.owner = Some(owner.clone()).filter(|owner| !owner.is_empty());
            }
            return None;
        }
        source.owner.as_ref().is_some_and(|owner| *owner == signal.sender).then_some(signal)
    }

    fn keep(&mut self, signal: Signal) {
        if self.signals.len() == MOST_SIGNALS {
            self.signals.pop_front();
        }
        self.signals.push_back(signal);
    }

    /// The next signal; `None` if none has come within this time.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn next_signal(&mut self, within: Duration) -> Result<Option<Signal>> {
        if let Some(signal) = self.signals.pop_front() {
            return Ok(Some(signal));
        }
        self.until = Instant::now() + within;
        loop {
            match self.receive() {
                Ok(Received::Signal(signal)) => {
                    if let Some(signal) = self.taken(signal) {
                        return Ok(Some(signal));
                    }
                }
                Ok(_) => {}
                Err(Error::Connection(cause)) if is_timeout(&cause) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn receive(&mut self) -> Result<Received> {
        while self.bytes.len() < FIXED {
            self.fill()?;
        }
        let fixed = self.bytes.get(..FIXED).and_then(|bytes| bytes.try_into().ok());
        let rest = fixed.as_ref().and_then(message::rest).ok_or(Error::Protocol("a message is too long"))?;
        while self.bytes.len() < FIXED + rest {
            self.fill()?;
        }
        let message: Vec<u8> = self.bytes.drain(..FIXED + rest).collect();
        let read = message::read(&message).ok_or(Error::Protocol("a message is cut or wrong"))?;
        // Files come with the first byte of their message, and those of later messages after them.
        if self.files.len() < read.files {
            return Err(Error::Protocol("a message has come without its files"));
        }
        let files = self.files.drain(..read.files).collect();
        if self.bytes.is_empty() {
            self.files.clear();
        }
        Ok(match read.received {
            Received::Returned { serial, mut reply } => {
                reply.files = files;
                Received::Returned { serial, reply }
            }
            // Their files are closed.
            other => other,
        })
    }

    /// Receives what there is, or waits for it.
    fn fill(&mut self) -> Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut chunk = [0; CHUNK];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let mut slices = [IoSliceMut::new(&mut chunk)];
        let received = loop {
            match recvmsg(&self.stream, &mut slices, &mut ancillary, flags) {
                Err(rustix::io::Errno::INTR) => {}
                received => break received.map_err(io::Error::from)?,
            }
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        if received.bytes == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        self.bytes.extend_from_slice(chunk.get(..received.bytes).unwrap_or_default());
        Ok(())
    }
}

fn is_timeout(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, IoSlice, Read};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;
    use std::thread::{JoinHandle, spawn};

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    /// A bus that accepts one client, answers each call by this function, and ends with the client.
    fn bus(
        answers: impl Fn(&[u8], u32) -> Vec<(Vec<u8>, Option<OwnedFd>)> + Send + 'static,
    ) -> (tempfile::TempDir, JoinHandle<()>) {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("bus")).unwrap();
        let serve = move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while !line.starts_with("BEGIN") {
                line.clear();
                reader.read_line(&mut line).unwrap();
            }
            (&stream).write_all(b"OK 0123\r\nAGREE_UNIX_FD\r\n").unwrap();
            loop {
                let mut fixed = [0; FIXED];
                if reader.read_exact(&mut fixed).is_err() {
                    return;
                }
                let mut rest = vec![0; message::rest(&fixed).unwrap()];
                reader.read_exact(&mut rest).unwrap();
                let serial = u32::from_ne_bytes(fixed[8..12].try_into().unwrap());
                for (answer, file) in answers(&rest, serial) {
                    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                    let mut ancillary = SendAncillaryBuffer::new(&mut space);
                    let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
                    if !files.is_empty() {
                        ancillary.push(SendAncillaryMessage::ScmRights(&files));
                    }
                    sendmsg(&stream, &[IoSlice::new(&answer)], &mut ancillary, SendFlags::empty()).unwrap();
                }
            }
        };
        (dir, spawn(serve))
    }

    fn null() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    fn has(message: &[u8], word: &str) -> bool {
        message.windows(word.len()).any(|bytes| bytes == word.as_bytes())
    }

    #[test]
    fn a_file_comes_with_its_answer_and_signals_are_kept_until_they_are_read() {
        let (dir, bus) = bus(|message, serial| {
            let mut answers = Vec::new();
            if has(message, "Inhibit") {
                answers.push((message::tests::signal(":1.1", "PrepareForShutdown", true, 0), None));
                answers.push((message::tests::with_files(serial, 1), Some(null())));
            } else {
                answers.push((message::tests::returned(serial, ""), None));
            }
            answers
        });
        let mut connection = Connection::bus(&dir.path().join("bus"), PATIENCE).unwrap();
        let body = Body::default().text("shutdown");
        let call = Call { path: "/o", destination: "d", interface: "i", method: "Inhibit", body: &body };
        assert_eq!(connection.call(&call).unwrap().files.len(), 1);
        let signal = connection.next_signal(PATIENCE).unwrap().unwrap();
        assert_eq!((signal.member.as_str(), signal.body.flag()), ("PrepareForShutdown", Some(true)));
        assert!(connection.next_signal(Duration::from_millis(20)).unwrap().is_none());
        connection.add_match("type='signal'").unwrap();
        drop(connection);
        bus.join().unwrap();
    }

    /// Any program could send a signal with a file, which was taken for that of the answer.
    #[test]
    fn a_signal_brings_no_file_and_takes_none_of_an_answer() {
        let (dir, bus) = bus(|message, serial| match has(message, "Inhibit") {
            true => vec![
                (message::tests::signal(":1.66", "Forged", true, 1), Some(null())),
                (message::tests::with_files(serial, 1), Some(null())),
                (message::tests::signal(":1.66", "Forged", true, 1), Some(null())),
            ],
            false => vec![(message::tests::returned(serial, ""), None)],
        });
        let mut connection = Connection::bus(&dir.path().join("bus"), PATIENCE).unwrap();
        let body = Body::default();
        let call = Call { path: "/o", destination: "d", interface: "i", method: "Inhibit", body: &body };
        assert_eq!(connection.call(&call).unwrap().files.len(), 1);
        for _ in 0..2 {
            let signal = connection.next_signal(PATIENCE).unwrap().unwrap();
            assert_eq!((signal.member.as_str(), signal.body.files.len()), ("Forged", 0));
        }
        assert!(connection.files.is_empty());
        drop(connection);
        bus.join().unwrap();
    }

    #[test]
    fn only_the_signals_of_the_program_that_owns_the_name_are_taken() {
        let owner = |sender: &str, owner: &str| message::tests::owner_changed(sender, "org.x", owner);
        let (dir, bus) = bus(move |message, serial| {
            let signal = |sender: &str, member: &str| (message::tests::signal(sender, member, true, 0), None);
            let answer = (message::tests::returned(serial, ""), None);
            if has(message, "GetNameOwner") {
                return vec![signal(":1.66", "Early"), (message::tests::with_text(serial, ":1.2"), None)];
            }
            if !has(message, "Poke") {
                return vec![answer];
            }
            vec![
                signal(":1.66", "Forged"),
                (owner(":1.66", ":1.66"), None),
                signal(":1.66", "Again"),
                signal(":1.2", "First"),
                (owner(BUS, ":1.3"), None),
                signal(":1.2", "Former"),
                answer,
                signal(":1.3", "Second"),
                (owner(BUS, ""), None),
                signal(":1.3", "Gone"),
                signal("", "Nameless"),
            ]
        });
        let mut connection = Connection::bus(&dir.path().join("bus"), PATIENCE).unwrap();
        connection.receive_only_from("org.x").unwrap();
        connection.call_bus("Poke", &Body::default()).unwrap();
        let mut taken = Vec::new();
        while let Some(signal) = connection.next_signal(Duration::from_millis(200)).unwrap() {
            taken.push(signal.member);
        }
        assert_eq!(taken, ["First", "Second"]);
        drop(connection);
        bus.join().unwrap();
    }

    #[test]
    fn an_answer_that_does_not_come_and_a_bus_that_ends_are_errors() {
        let (dir, silent) = bus(|message, serial| match has(message, "Hello") {
            true => vec![(message::tests::returned(serial, ""), None)],
            false => vec![],
        });
        let mut connection = Connection::bus(&dir.path().join("bus"), Duration::from_millis(200)).unwrap();
        let timeout = connection.add_match("x").unwrap_err();
        assert!(matches!(&timeout, Error::Connection(cause) if is_timeout(cause)), "{timeout}");
        drop(connection);
        silent.join().unwrap();
        assert!(matches!(Connection::bus(&dir.path().join("none"), PATIENCE), Err(Error::Connection(_))));
    }
}
