//! The packets between this program and whoever asked for the process.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

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

/// One packet, with a descriptor where there is one to hand over.
pub(super) fn tell(to: &OwnedFd, what: &Value, with: Option<&OwnedFd>) -> Result<(), Failure> {
    let text = what.to_string();
    let fds: Vec<_> = with.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let sent = sendmsg(to, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL);
    sent.map(drop).map_err(|errno| Failure::during("cannot tell what became of it", errno))
}
