//! The packets between this program and its client.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};
use serde_json::Value;

use crate::failure::Failure;

/// More than the kernel lets arguments and environment be in practice.
const LARGEST: usize = 256 * 1024;

/// The next packet.
pub(super) fn hear(from: &OwnedFd) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; LARGEST];
    loop {
        match recv(from, &mut bytes[..], RecvFlags::TRUNC) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::during("cannot hear the request", errno)),
            Ok((_, length)) if length > LARGEST => return Err(Failure::of("the request is too long")),
            Ok((_, 0)) => return Err(Failure::of("there was no request")),
            Ok((_, length)) => {
                bytes.truncate(length);
                return Ok(bytes);
            }
        }
    }
}

/// One packet, with what is to be handed over: a terminal and a process at most.
pub(super) fn tell(to: &OwnedFd, what: &Value, with: &[BorrowedFd<'_>]) -> Result<(), Failure> {
    let text = what.to_string();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() && !control.push(SendAncillaryMessage::ScmRights(with)) {
        return Err(Failure::of("cannot tell what became of it: too many descriptors"));
    }
    let sent = sendmsg(to, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL);
    sent.map(drop).map_err(|errno| Failure::during("cannot tell what became of it", errno))
}
