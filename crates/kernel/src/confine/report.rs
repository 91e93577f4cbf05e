use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The step that was under way when something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    Hide,
    Keyring,
    Cgroup,
    OomScore,
    Limit,
    Join,
    Fork,
    Streams,
    Close,
    Session,
    Root,
    Label,
    Terminal,
    Directory,
    Bounding,
    User,
    Parent,
    Seccomp,
    Capabilities,
    Program,
}

const STEPS: [(Step, &str); 20] = [
    (Step::Hide, "hide from the container"),
    (Step::Keyring, "have a session keyring of its own"),
    (Step::Cgroup, "join the container's control groups"),
    (Step::OomScore, "set the OOM score"),
    (Step::Limit, "limit what it may use"),
    (Step::Join, "join the container's namespaces"),
    (Step::Fork, "start a process"),
    (Step::Streams, "open the container's /dev/null for a standard stream"),
    (Step::Close, "close what is not the container's"),
    (Step::Session, "begin a session"),
    (Step::Root, "become the container's root"),
    (Step::Label, "set the label"),
    (Step::Terminal, "open a terminal in the container's /dev/pts"),
    (Step::Directory, "go to the working directory"),
    (Step::Bounding, "drop capabilities"),
    (Step::User, "become the user"),
    (Step::Parent, "stay with its maker"),
    (Step::Seccomp, "set the seccomp filter"),
    (Step::Capabilities, "set the capabilities"),
    (Step::Program, "run the program"),
];

impl Step {
    pub(super) fn words(self) -> &'static str {
        STEPS.iter().find(|(step, _)| *step == self).map_or("do what was asked", |(_, words)| words)
    }
}

/// A message from the started processes.
#[derive(Debug)]
pub(super) enum Told {
    /// The PID of the process that will exec the program.
    Pid(i32),
    /// The master side of the terminal.
    Master(OwnedFd),
    /// All steps are done that do not need the parent.
    Ready,
    /// A step failed.
    Failed(Step, Errno),
    /// The other end is closed: the program runs, or it never will.
    Nothing,
}

/// The two ends of a socket pair: ours, and that of the started processes. Packets keep their boundaries.
pub(super) fn ends() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

pub(super) fn tell_pid(to: BorrowedFd<'_>, pid: i32) {
    let _ = rustix::io::write(to, &packet(b'p', 0, pid));
}

pub(super) fn tell_ready(to: BorrowedFd<'_>) {
    let _ = rustix::io::write(to, &packet(b'r', 0, 0));
}

/// By `write`, which every seccomp filter that lets programs run allows.
pub(super) fn tell_failed(to: BorrowedFd<'_>, step: Step, errno: Errno) {
    let number = STEPS.iter().position(|(known, _)| *known == step).and_then(|at| u8::try_from(at).ok());
    let _ = rustix::io::write(to, &packet(b'f', number.unwrap_or(u8::MAX), errno.raw_os_error()));
}

pub(super) fn tell_master(to: BorrowedFd<'_>, master: BorrowedFd<'_>) -> Result<(), Errno> {
    let fds = [master];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(to, &[IoSlice::new(&packet(b'm', 0, 0))], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Waits for the parent's message; `false` if there will be none.
pub(super) fn told_to_go(from: BorrowedFd<'_>) -> bool {
    let mut byte = [0; 1];
    loop {
        match rustix::io::read(from, &mut byte) {
            Err(Errno::INTR) => {}
            answer => return answer == Ok(1),
        }
    }
}

pub(super) fn tell_go(to: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::net::send(to, b"g", SendFlags::NOSIGNAL).map(drop)
}

/// The next message.
pub(super) fn listen(from: &OwnedFd) -> Result<Told, Errno> {
    let mut bytes = [0; 6];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let read = loop {
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        match recvmsg(from.as_fd(), parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            // The other process ended without reading our message.
            Err(Errno::CONNRESET) => return Ok(Told::Nothing),
            answer => break answer?.bytes,
        }
    };
    if read == 0 {
        return Ok(Told::Nothing);
    }
    let [kind, step, number @ ..] = bytes;
    let number = i32::from_le_bytes(number);
    match kind {
        b'p' => Ok(Told::Pid(number)),
        b'r' => Ok(Told::Ready),
        b'm' => master(&mut control).map(Told::Master).ok_or(Errno::BADMSG),
        b'f' => {
            let step = STEPS.get(usize::from(step)).map(|(step, _)| *step);
            Ok(Told::Failed(step.ok_or(Errno::BADMSG)?, Errno::from_raw_os_error(number)))
        }
        _ => Err(Errno::BADMSG),
    }
}

fn master(control: &mut RecvAncillaryBuffer<'_>) -> Option<OwnedFd> {
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })
}

fn packet(kind: u8, step: u8, number: i32) -> [u8; 6] {
    let [a, b, c, d] = number.to_le_bytes();
    [kind, step, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives_in_order_and_its_end_too() {
        let (ours, theirs) = ends().unwrap();
        tell_pid(theirs.as_fd(), 7);
        tell_master(theirs.as_fd(), theirs.as_fd()).unwrap();
        tell_ready(theirs.as_fd());
        tell_failed(theirs.as_fd(), Step::Program, Errno::NOENT);
        drop(theirs);
        assert!(matches!(listen(&ours), Ok(Told::Pid(7))));
        assert!(matches!(listen(&ours), Ok(Told::Master(_))));
        assert!(matches!(listen(&ours), Ok(Told::Ready)));
        assert!(matches!(listen(&ours), Ok(Told::Failed(Step::Program, Errno::NOENT))));
        assert!(matches!(listen(&ours), Ok(Told::Nothing)));
    }

    #[test]
    fn each_step_has_words() {
        for (step, words) in STEPS {
            assert_eq!(step.words(), words);
        }
    }
}
