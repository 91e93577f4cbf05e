use std::io::{self, ErrorKind};

use netlink_sys::SocketAddr;
use netlink_sys::constants::{NETLINK_NETFILTER, NETLINK_ROUTE};
use rustix::io::Errno;

use super::attributes::{aligned, find, text};
use super::{Attributes, flags};
use crate::error::{Error, Result};

const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Larger than any datagram that the kernel sends.
const LARGEST: usize = 256 * 1024;
/// `NLM_F_ACK_TLVS`: an error has an extended acknowledgement.
const HAS_WORDS: u16 = 0x200;
const WORDS: u16 = 1;
const CAPPED: u16 = 0x100;

/// One message to the kernel.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    /// The header of the family, and the attributes.
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(kind: u16, flags: u16, header: &[u8], attributes: &Attributes) -> Self {
        let mut body = header.to_vec();
        body.resize(aligned(body.len()), 0);
        body.extend(attributes.as_bytes());
        Self { kind, flags: flags | flags::REQUEST, body }
    }

    fn write(&self, sequence: u32, out: &mut Vec<u8>) {
        let length = u32::try_from(HEADER + self.body.len()).unwrap_or(u32::MAX);
        out.extend(length.to_ne_bytes());
        out.extend(self.kind.to_ne_bytes());
        out.extend(self.flags.to_ne_bytes());
        out.extend(sequence.to_ne_bytes());
        out.extend(0_u32.to_ne_bytes());
        out.extend(&self.body);
        out.resize(aligned(out.len()), 0);
    }
}

/// A netlink socket of the network namespace in which it was opened.
pub(crate) struct Socket {
    socket: netlink_sys::Socket,
    sequence: u32,
}

impl Socket {
    /// NETLINK_ROUTE: links, addresses and routes.
    pub(crate) fn route() -> Result<Self> {
        Self::open(NETLINK_ROUTE)
    }

    /// NETLINK_NETFILTER: nftables and conntrack.
    pub(crate) fn netfilter() -> Result<Self> {
        Self::open(NETLINK_NETFILTER)
    }

    fn open(protocol: isize) -> Result<Self> {
        let open = || {
            let mut socket = netlink_sys::Socket::new(protocol)?;
            socket.bind_auto()?;
            socket.set_non_blocking(true)?;
            // Extended acknowledgements, without a copy of the request.
            socket.set_ext_ack(true)?;
            socket.set_cap_ack(true)?;
            Ok(socket)
        };
        let socket = open().map_err(refused("speak netlink"))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends a request; returns the bodies of all replies.
    pub(crate) fn call(&mut self, what: &str, mut request: Request) -> Result<Vec<Vec<u8>>> {
        if request.flags & flags::DUMP == 0 {
            request.flags |= flags::ACK;
        }
        self.send(what, &[request])
    }

    /// Passes the replies to one request to a closure, for as long as it wants more. The rest is never read, and the
    /// socket cannot be used again then.
    pub(crate) fn each(
        &mut self,
        what: &str,
        request: Request,
        hear: impl FnMut(&[u8]) -> More,
    ) -> Result<()> {
        self.exchange(what, &[request], hear)
    }

    /// Sends all requests as one datagram; returns the bodies of all replies.
    pub(crate) fn send(&mut self, what: &str, requests: &[Request]) -> Result<Vec<Vec<u8>>> {
        let mut answers = Vec::new();
        self.exchange(what, requests, |body| {
            answers.push(body.to_vec());
            More::Wanted
        })?;
        Ok(answers)
    }

    /// The kernel processes all requests before `send` returns, and its replies are queued then; each `recv` brings
    /// more of a dump. So nothing here ever blocks.
    fn exchange(
        &mut self,
        what: &str,
        requests: &[Request],
        mut hear: impl FnMut(&[u8]) -> More,
    ) -> Result<()> {
        let mut out = Vec::new();
        for request in requests {
            self.sequence = self.sequence.wrapping_add(1);
            request.write(self.sequence, &mut out);
        }
        self.socket.send_to(&out, &SocketAddr::new(0, 0), 0).map_err(refused(what))?;
        let mut failure = None;
        let mut buffer = Vec::with_capacity(LARGEST);
        loop {
            buffer.clear();
            match self.socket.recv(&mut buffer, 0) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(refused(what)(error)),
            }
            for message in messages(&buffer) {
                match message {
                    Message::Answer(body) => match hear(body) {
                        More::Wanted => {}
                        More::Enough => return Ok(()),
                    },
                    Message::Failed { errno, said } if failure.is_none() => failure = Some((errno, said)),
                    Message::Failed { .. } | Message::Fine => {}
                    Message::Garbled => return Err(Error::Answer { what: what.to_owned() }),
                }
            }
        }
        match failure {
            None => Ok(()),
            Some((errno, said)) => Err(Error::Netlink { what: what.to_owned(), errno, said }),
        }
    }
}

/// Whether the consumer of a dump wants more of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    Wanted,
    Enough,
}

fn refused(what: &str) -> impl Fn(io::Error) -> Error {
    move |error| Error::Netlink {
        what: what.to_owned(),
        errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        said: None,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Message<'a> {
    Answer(&'a [u8]),
    Failed { errno: Errno, said: Option<String> },
    Fine,
    Garbled,
}

fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (message, more) = first(rest).unwrap_or((Message::Garbled, &[]));
        rest = more;
        Some(message)
    })
}

fn first(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let flags = u16::from_ne_bytes(*bytes.get(6..)?.first_chunk()?);
    let body = bytes.get(HEADER..length)?;
    let more = bytes.get(aligned(length)..).unwrap_or_default();
    let message = match kind {
        ERROR => outcome(body, flags)?,
        // A dump that fails midway reports so in its last message.
        DONE => body.first_chunk().map_or(Some(Message::Fine), |code| failed(*code, None))?,
        _ => Message::Answer(body),
    };
    Some((message, more))
}

/// The error code, the request (or its header alone), and the attributes of the extended acknowledgement.
fn outcome(body: &[u8], flags: u16) -> Option<Message<'_>> {
    let code = *body.first_chunk()?;
    let asked = usize::try_from(u32::from_ne_bytes(*body.get(4..)?.first_chunk()?)).ok()?;
    let asked = if flags & CAPPED == 0 { aligned(asked) } else { HEADER };
    let words = (flags & HAS_WORDS != 0).then(|| body.get(4 + asked..)).flatten();
    failed(code, words.and_then(|words| find(words, WORDS)).map(text))
}

fn failed(code: [u8; 4], said: Option<String>) -> Option<Message<'static>> {
    match i32::from_ne_bytes(code) {
        0 => Some(Message::Fine),
        code => Some(Message::Failed { errno: Errno::from_raw_os_error(code.checked_neg()?), said }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Request { kind, flags, body: body.to_vec() }.write(1, &mut out);
        out
    }

    #[test]
    fn an_error_is_told_with_the_kernels_words() {
        let mut body = (-17_i32).to_ne_bytes().to_vec();
        body.extend(message(16, 0, &[]));
        body.extend(Attributes::new().text(WORDS, "it is there").as_bytes());
        let bytes = [message(ERROR, HAS_WORDS | CAPPED, &body), message(16, 0, &[7, 0, 0, 0])].concat();
        let read: Vec<_> = messages(&bytes).collect();
        let failed = Message::Failed { errno: Errno::EXIST, said: Some("it is there".to_owned()) };
        assert_eq!(read, [failed, Message::Answer(&[7, 0, 0, 0])]);
    }

    #[test]
    fn what_is_cut_short_is_not_taken_for_an_answer() {
        let bytes = message(16, 0, &[1, 2, 3, 4]);
        for cut in 1..bytes.len() {
            assert_eq!(messages(&bytes[..cut]).last(), Some(Message::Garbled), "{cut}");
        }
    }
}
