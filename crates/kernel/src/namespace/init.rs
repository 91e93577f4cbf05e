use std::ffi::{CStr, c_int, c_long};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::io::Errno;

use super::words::Words;
use super::{Namespace, NamespaceKind, Process, empty_root};
use crate::userns::last_errno;
use crate::{Error, Result};

/// The first process of a PID namespace that several containers share. It only reaps orphaned processes.
///
/// It is a child of the caller, and is killed with it until [`detach`](Self::detach). SIGKILL or SIGTERM from outside
/// end it, and with it every process of the namespace; a SIGTERM from inside does not.
///
/// Every process of the pod can see it, and a privileged one can do anything with it. So it has nothing: an empty
/// root, namespaces of its own, no capability, no descriptor, no arguments and no environment. Its program is the
/// caller's, which should run from a read-only mount.
#[derive(Debug)]
pub struct PidInit {
    /// The process.
    pub process: Process,
    /// The namespace.
    pub namespace: Namespace,
    /// It waits for a word at the other end, and ends if there will be none.
    word: Option<OwnedFd>,
}

/// What the copy of a process takes with it.
struct Taken {
    userns: c_int,
    report: RawFd,
    word: RawFd,
    words: Words,
}

/// All that it has of its own, beside the user namespace.
const KINDS: c_int = libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// How it is called, with its NUL.
const NAME: &CStr = c"wardlet-init";

impl PidInit {
    /// Starts one, in a PID namespace that belongs to `userns` or to the caller's user namespace.
    ///
    /// What must stay true: from the fork on only system calls are made, on memory that was there before,
    /// since another thread may hold any lock.
    pub fn start(userns: Option<BorrowedFd<'_>>) -> Result<Self> {
        let failed =
            |errno| Error::NewNamespaces { step: "start the first process of a PID namespace", errno };
        let (reading, writing) = pipe().map_err(failed)?;
        let (heard, word) = pipe().map_err(failed)?;
        let taken = Taken {
            userns: userns.map_or(-1, |fd| fd.as_raw_fd()),
            report: writing.as_raw_fd(),
            word: heard.as_raw_fd(),
            words: Words::own().ok_or_else(|| failed(Errno::NOENT))?,
        };
        // SAFETY: both sides go on as the comment above says.
        let between = match unsafe { libc::fork() } {
            ..0 => return Err(failed(last_errno())),
            0 => {
                // It would else wait for a word that only itself could give.
                drop(word);
                go_between(&taken)
            }
            pid => pid,
        };
        drop((writing, heard));
        let answer = read_answer(&reading);
        wait_for(between);
        let pid = match answer {
            Some(pid @ 1..) => pid.unsigned_abs(),
            Some(errno) => return Err(failed(Errno::from_raw_os_error(-errno))),
            None => return Err(failed(Errno::CHILD)),
        };
        let process = Process::open(pid)?;
        // It has come to rest when it has closed its end.
        let _ = read_answer(&reading);
        let namespace = process.namespace(NamespaceKind::Pid)?;
        Ok(Self { process, namespace, word: Some(word) })
    }

    /// Clears the parent-death signal: from now on it outlives the caller, because a record of it exists.
    pub fn detach(&mut self) -> Result<()> {
        let failed = |errno| Error::NewNamespaces { step: "detach the first process", errno };
        let Some(word) = self.word.take() else { return Ok(()) };
        rustix::io::write(&word, b"g").map(drop).map_err(failed)
    }
}

fn pipe() -> std::result::Result<(OwnedFd, OwnedFd), Errno> {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: the kernel writes two descriptors to `ends`.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(last_errno());
    }
    // SAFETY: the kernel has just returned this descriptor, and no other value owns it.
    let [reading, writing] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((reading, writing))
}

/// The number of the process, or the kernel's answer as a negative number.
fn read_answer(from: &OwnedFd) -> Option<i32> {
    let mut bytes = [0; 4];
    loop {
        match rustix::io::read(from, &mut bytes) {
            Ok(4) => return Some(i32::from_ne_bytes(bytes)),
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return None,
        }
    }
}

fn wait_for(pid: libc::pid_t) {
    loop {
        // SAFETY: no status is asked for.
        let waited = unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
        if waited == pid || last_errno() != Errno::INTR {
            return;
        }
    }
}

/// Goes where only its child can be, has it for our parent, tells its number and ends.
fn go_between(taken: &Taken) -> ! {
    let told =
        enter(taken.userns).map_or_else(|errno| -errno.raw_os_error(), |()| child_of_our_parent(taken));
    let bytes = told.to_ne_bytes();
    // SAFETY: four bytes are read from `bytes`.
    unsafe { libc::write(taken.report, bytes.as_ptr().cast(), bytes.len()) };
    exit(0)
}

fn enter(userns: c_int) -> std::result::Result<(), Errno> {
    hide()?;
    crate::keyring::leave()?;
    if userns >= 0 {
        call(libc::SYS_setns, [userns.into(), libc::CLONE_NEWUSER.into()])?;
        call(libc::SYS_setgroups, [0, 0])?;
        // SAFETY: plain numbers.
        check(unsafe { libc::syscall(libc::SYS_setresgid, 0, 0, 0) })?;
        // SAFETY: plain numbers.
        check(unsafe { libc::syscall(libc::SYS_setresuid, 0, 0, 0) })?;
        // The kernel takes that back when the user changes.
        hide()?;
    }
    call(libc::SYS_unshare, [KINDS.into(), 0])?;
    empty_root::enter()?;
    nothing_to_gain()
}

/// It shares our memory: no process of the pod may read it.
fn hide() -> std::result::Result<(), Errno> {
    call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE.into(), 0])
}

/// A process that makes it run another program gains nothing: no new privileges, no dump.
fn nothing_to_gain() -> std::result::Result<(), Errno> {
    for number in 0..64 {
        match call(libc::SYS_prctl, [libc::PR_CAPBSET_DROP.into(), number]) {
            // Linux has no more of them.
            Err(Errno::INVAL) => break,
            answer => answer?,
        }
    }
    call(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS.into(), 1])
}

fn child_of_our_parent(taken: &Taken) -> i32 {
    let flags = c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: as a fork: memory is copied and no stack is given.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone, flags, 0 as c_long, 0 as c_long, 0 as c_long, 0 as c_long) };
    match i32::try_from(pid) {
        Ok(0) => take_in_orphans(taken),
        Ok(pid @ 1..) => pid,
        Ok(_) | Err(_) => -last_errno().raw_os_error(),
    }
}

/// The process itself. What is blocked is kept for `sigwaitinfo`, also what would else be ignored by the
/// first process of a namespace.
fn take_in_orphans(taken: &Taken) -> ! {
    let wanted = signals();
    // SAFETY: the set is complete; the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const wanted, ptr::null_mut()) };
    // SAFETY: takes nothing.
    unsafe { libc::setsid() };
    let _ = call(libc::SYS_prctl, [libc::PR_SET_NAME.into(), name()]);
    // SAFETY: this is the forked process, with one thread, and nothing below looks at arguments or environment.
    unsafe { taken.words.replace(NAME.to_bytes_with_nul()) };
    no_capabilities();
    wait_for_word(taken.word);
    loop {
        match next(&wanted) {
            Some((libc::SIGTERM, Sender::Outside)) => exit(0),
            // SAFETY: the status pointer is null, which `waitpid` allows, and the call does not block.
            Some(_) => while unsafe { libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) } > 0 {},
            None => {}
        }
    }
}

/// Waits for the release, and ends if the parent dies before.
fn wait_for_word(word: RawFd) {
    // The caller waits for the end of its pipe.
    close_but(word);
    let mut byte = 0u8;
    loop {
        // SAFETY: one byte is written to `byte`.
        match unsafe { libc::read(word, (&raw mut byte).cast(), 1) } {
            1 => break,
            -1 if last_errno() == Errno::INTR => {}
            _ => exit(0),
        }
    }
    // SAFETY: this process uses no descriptor any more.
    unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0) };
}

fn close_but(kept: RawFd) {
    let Ok(kept) = libc::c_uint::try_from(kept) else { exit(1) };
    if let Some(last) = kept.checked_sub(1) {
        // SAFETY: this process uses none of these descriptors any more.
        unsafe { libc::syscall(libc::SYS_close_range, 0, last, 0) };
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, kept.saturating_add(1), libc::c_uint::MAX, 0) };
}

/// The sender of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    Outside,
    Inside,
}

/// The next signal and its sender. The PID of a sender outside of the namespace is 0; with calls other than `kill` a
/// process inside could forge that.
fn next(wanted: &libc::sigset_t) -> Option<(c_int, Sender)> {
    let mut about = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the set is complete, and a whole description is written to `about`.
    let signal = unsafe { libc::sigwaitinfo(wanted, about.as_mut_ptr()) };
    if signal < 0 {
        return None;
    }
    // SAFETY: it began as all zero, which is a description, and the kernel has written another.
    let about = unsafe { about.assume_init() };
    if about.si_code != libc::SI_USER {
        return Some((signal, Sender::Inside));
    }
    // SAFETY: signals sent by `kill` have a sender.
    let sender = unsafe { about.si_pid() };
    Some((signal, if sender == 0 { Sender::Outside } else { Sender::Inside }))
}

fn signals() -> libc::sigset_t {
    // SAFETY: all zero is an empty set of signals.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in [libc::SIGCHLD, libc::SIGTERM] {
        // SAFETY: the set is a whole one, and the signal a real one.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

fn name() -> c_long {
    // The kernel takes a pointer as a number here.
    c_long::try_from(NAME.as_ptr().addr()).unwrap_or(0)
}

/// It needs no capability, whichever user it is.
fn no_capabilities() {
    let nobody = rustix::thread::CapabilitySet::empty();
    let sets = rustix::thread::CapabilitySets { effective: nobody, permitted: nobody, inheritable: nobody };
    let _ = rustix::thread::set_capabilities(None, sets);
}

fn call(number: c_long, arguments: [c_long; 2]) -> std::result::Result<(), Errno> {
    let [first, second] = arguments;
    // SAFETY: the calls made above are given numbers, descriptors and a pointer that stays valid.
    check(unsafe { libc::syscall(number, first, second, 0 as c_long, 0 as c_long, 0 as c_long) })
}

fn check(result: c_long) -> std::result::Result<(), Errno> {
    if result < 0 { Err(last_errno()) } else { Ok(()) }
}

fn exit(code: c_int) -> ! {
    // SAFETY: ends this process without running anything that the forking process has registered.
    unsafe { libc::_exit(code) }
}
