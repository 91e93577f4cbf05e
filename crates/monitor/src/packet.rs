//! One message of the socket, with the descriptors that come along.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};

use crate::{Error, Result};

/// The largest packet.
pub const LARGEST: usize = 64 * 1024;
/// The most descriptors of a packet.
pub const MOST_DESCRIPTORS: usize = 3;

/// What was received.
#[derive(Debug)]
pub struct Packet {
    /// The message.
    pub bytes: Vec<u8>,
    /// The descriptors that came with it, all close-on-exec.
    pub descriptors: Vec<OwnedFd>,
}

/// The result of receiving.
#[derive(Debug)]
pub enum Received {
    /// A packet.
    Packet(Packet),
    /// One that is too large, or has too many descriptors. It is dropped.
    Oversized,
    /// No packet is queued.
    Nothing,
    /// The connection is closed.
    End,
}

/// Receives without waiting.
pub fn receive(socket: impl AsFd) -> Result<Received> {
    let Some(size) = size(&socket) else { return Ok(Received::Nothing) };
    let mut bytes = vec![0; size];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(received) => break received,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            Err(Errno::CONNRESET) => return Ok(Received::End),
            Err(errno) => return Err(Error::Socket { what: "receive", cause: errno.into() }),
        }
    };
    let descriptors: Vec<OwnedFd> = control.drain().filter_map(rights).flatten().collect();
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Ok(Received::Oversized);
    }
    // An empty packet looks like the end of the connection; neither side sends one.
    if received.bytes == 0 && descriptors.is_empty() {
        return Ok(Received::End);
    }
    bytes.truncate(received.bytes);
    Ok(Received::Packet(Packet { bytes, descriptors }))
}

/// The size of the next packet, so that no more memory is touched than that; `None` if there is none yet: a packet
/// that arrives right after this must not be truncated to a guessed size. One that is too large, or whose size is not
/// known, is truncated.
fn size(socket: impl AsFd) -> Option<usize> {
    let flags = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    loop {
        match recv(&socket, &mut [0; 1], flags) {
            Ok((_, size)) if size <= LARGEST => return Some(size.max(1)),
            Err(Errno::AGAIN) => return None,
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return Some(1),
        }
    }
}

fn rights(message: RecvAncillaryMessage<'_>) -> Option<impl Iterator<Item = OwnedFd>> {
    match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    }
}

/// The result of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It was sent.
    All,
    /// The socket's buffer is full.
    Not,
}

/// Sends without waiting.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<Sent> {
    if bytes.len() > LARGEST {
        return Err(Error::TooLarge { size: bytes.len(), largest: LARGEST });
    }
    let failed = |cause: io::Error| Error::Socket { what: "send", cause };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(failed(Errno::TOOMANYREFS.into()));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, flags) {
            Ok(_) => return Ok(Sent::All),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(Sent::Not),
            Err(errno) => return Err(failed(errno.into())),
        }
    }
}
