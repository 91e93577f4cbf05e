use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use monitor::Attach;
use rustix::event::PollFlags;
use rustix::io::{Errno, ioctl_fionbio, read, write};

use crate::log::Stream;
use crate::note::note;

/// Read from a client at once.
const PIECE: usize = 4096;
/// A client with more than this many unread bytes is disconnected: the container does not wait for it.
const MOST: usize = 1024 * 1024;

/// A client that is attached to a container.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    input: Option<OwnedFd>,
    asked_for_input: bool,
    out: Option<Sink>,
    err: Option<Sink>,
}

/// Where one stream goes to. The descriptor does not block.
#[derive(Debug)]
struct Sink {
    fd: OwnedFd,
    waiting: Vec<u8>,
    /// Nothing more will come; what waits is still written.
    ends: bool,
}

/// What came of reading a client's input.
pub(crate) enum Taken {
    Bytes(Vec<u8>),
    Nothing,
    End,
}

impl Attached {
    /// With these descriptors, which are as many as are wanted.
    pub(crate) fn new(wanted: &Attach, descriptors: Vec<OwnedFd>) -> Result<Self, String> {
        if descriptors.len() != wanted.descriptors() || descriptors.is_empty() {
            let (given, needed) = (descriptors.len(), wanted.descriptors());
            return Err(format!("{given} descriptors came along, {needed} are needed"));
        }
        for descriptor in &descriptors {
            ioctl_fionbio(descriptor, true)
                .map_err(|errno| format!("a descriptor cannot be used: {errno}"))?;
        }
        let mut given = descriptors.into_iter();
        let mut next = |wanted: bool| if wanted { given.next() } else { None };
        let input = next(wanted.stdin);
        let sink = |fd| Sink { fd, waiting: Vec::new(), ends: false };
        let out = next(wanted.stdout).map(sink);
        let err = next(wanted.stderr).map(sink);
        Ok(Self { asked_for_input: input.is_some(), input, out, err })
    }

    pub(crate) fn input(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn had_input(&self) -> bool {
        self.asked_for_input
    }

    /// The descriptors of a client's streams. They are polled also when there is nothing to write, to notice that the
    /// client has closed them.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (Stream, BorrowedFd<'_>, PollFlags)> {
        [(Stream::Stdout, &self.out), (Stream::Stderr, &self.err)].into_iter().filter_map(|(stream, sink)| {
            let sink = sink.as_ref()?;
            let wanted = if sink.waiting.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            Some((stream, sink.fd.as_fd(), wanted))
        })
    }

    pub(crate) fn read_input(&mut self) -> Taken {
        let Some(input) = &self.input else { return Taken::Nothing };
        let mut bytes = vec![0; PIECE];
        match read(input, bytes.as_mut_slice()) {
            Ok(0) => Taken::End,
            Ok(length) => {
                bytes.truncate(length);
                Taken::Bytes(bytes)
            }
            Err(Errno::AGAIN | Errno::INTR) => Taken::Nothing,
            Err(_) => Taken::End,
        }
    }

    pub(crate) fn drop_input(&mut self) {
        self.input = None;
    }

    /// Queues bytes of a stream. A client with too many unread bytes is disconnected.
    pub(crate) fn offer(&mut self, stream: Stream, bytes: &[u8]) {
        let Some(sink) = self.sink(stream) else { return };
        let rest = if sink.waiting.is_empty() { written(&sink.fd, bytes) } else { Some(bytes) };
        match rest {
            Some(rest) if sink.waiting.len() + rest.len() <= MOST => sink.waiting.extend_from_slice(rest),
            Some(_) => {
                note("an attached client read too slowly and was disconnected");
                *self = Self { asked_for_input: self.asked_for_input, ..Self::default() };
            }
            None => self.drop_sink(stream),
        }
    }

    pub(crate) fn flush(&mut self, stream: Stream, flags: PollFlags) {
        let Some(sink) = self.sink(stream) else { return };
        let hung_up = flags.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        match written(&sink.fd, &sink.waiting) {
            Some(rest) if !hung_up => {
                let done = sink.waiting.len() - rest.len();
                sink.waiting.drain(..done);
                if sink.waiting.is_empty() {
                    sink.waiting = Vec::new();
                }
                if sink.ends && sink.waiting.is_empty() {
                    self.drop_sink(stream);
                }
            }
            _ => self.drop_sink(stream),
        }
    }

    /// The stream has ended.
    pub(crate) fn finish(&mut self, stream: Stream) {
        let Some(sink) = self.sink(stream) else { return };
        sink.ends = true;
        if sink.waiting.is_empty() {
            self.drop_sink(stream);
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.input.is_none() && self.out.is_none() && self.err.is_none()
    }

    fn sink(&mut self, stream: Stream) -> Option<&mut Sink> {
        match stream {
            Stream::Stdout => self.out.as_mut(),
            Stream::Stderr => self.err.as_mut(),
        }
    }

    fn drop_sink(&mut self, stream: Stream) {
        match stream {
            Stream::Stdout => self.out = None,
            Stream::Stderr => self.err = None,
        }
    }
}

/// Writes as much as the descriptor takes; returns the rest, or `None` if the reader is gone.
fn written<'a>(fd: &OwnedFd, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match write(fd, rest) {
            Ok(length) => rest = rest.get(length..).unwrap_or_default(),
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(rest)
}
