use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::failure::Failure;

/// The terminal that an engine has handed over: it came with it before it ended.
pub(super) fn handed_over(listener: &UnixListener) -> Result<OwnedFd, Failure> {
    let failed = |cause: std::io::Error| Failure::during("cannot get the process's terminal", cause);
    listener.set_nonblocking(true).map_err(failed)?;
    let (stream, _) = listener.accept().map_err(failed)?;
    let mut name = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut name)];
    recvmsg(stream.as_fd(), parts, &mut control, RecvFlags::CMSG_CLOEXEC).map_err(|e| failed(e.into()))?;
    let master = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    master.ok_or_else(|| Failure::of("the engine came without the process's terminal"))
}
