use std::ffi::{c_int, c_long};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::io::Errno;

use super::{Namespace, NamespaceKind, Process};
use crate::userns::last_errno;
use crate::{Error, Result};

/// The first process of a PID namespace that several containers share. It does nothing but take in the
/// orphans of the others.
///
/// It is a child of the caller and outlives it. SIGKILL or SIGTERM from outside end it, and with it all that
/// is in the namespace; a SIGTERM from inside does not.
#[derive(Debug)]
pub struct PidInit {
    /// The process.
    pub process: Process,
    /// The namespace.
    pub namespace: Namespace,
}

impl PidInit {
    /// Starts one, in a PID namespace that belongs to `userns` or to the caller's user namespace.
    ///
    /// What must stay true: from the fork on only system calls are made, on memory that was there before,
    /// since another thread may hold any lock.
    pub fn start(userns: Option<BorrowedFd<'_>>) -> Result<Self> {
        let failed =
            |errno| Error::NewNamespaces { step: "start the first process of a PID namespace", errno };
        let (reading, writing) = pipe().map_err(failed)?;
        let join = userns.map_or(-1, |fd| fd.as_raw_fd());
        // SAFETY: both sides go on as the comment above says.
        let between = match unsafe { libc::fork() } {
            ..0 => return Err(failed(last_errno())),
            0 => go_between(join, writing.as_raw_fd()),
            pid => pid,
        };
        drop(writing);
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
        Ok(Self { process, namespace })
    }
}

fn pipe() -> std::result::Result<(OwnedFd, OwnedFd), Errno> {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: the kernel writes two descriptors to `ends`.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(last_errno());
    }
    // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
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
fn go_between(userns: c_int, report: RawFd) -> ! {
    let told = enter(userns).map_or_else(|errno| -errno.raw_os_error(), |()| child_of_our_parent());
    let bytes = told.to_ne_bytes();
    // SAFETY: four bytes are read from `bytes`.
    unsafe { libc::write(report, bytes.as_ptr().cast(), bytes.len()) };
    exit(0)
}

fn enter(userns: c_int) -> std::result::Result<(), Errno> {
    // This is our memory: nobody in the pod may look into it.
    call(libc::SYS_prctl, [c_long::from(libc::PR_SET_DUMPABLE), 0])?;
    if userns >= 0 {
        call(libc::SYS_setns, [userns.into(), libc::CLONE_NEWUSER.into()])?;
        call(libc::SYS_setgroups, [0, 0])?;
        // SAFETY: plain numbers.
        check(unsafe { libc::syscall(libc::SYS_setresgid, 0, 0, 0) })?;
        // SAFETY: plain numbers.
        check(unsafe { libc::syscall(libc::SYS_setresuid, 0, 0, 0) })?;
    }
    call(libc::SYS_unshare, [libc::CLONE_NEWPID.into(), 0])
}

fn child_of_our_parent() -> i32 {
    let flags = c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: as a fork: memory is copied and no stack is given.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone, flags, 0 as c_long, 0 as c_long, 0 as c_long, 0 as c_long) };
    match i32::try_from(pid) {
        Ok(0) => take_in_orphans(),
        Ok(pid @ 1..) => pid,
        Ok(_) | Err(_) => -last_errno().raw_os_error(),
    }
}

/// The process itself. What is blocked is kept for `sigwaitinfo`, also what would else be ignored by the
/// first process of a namespace.
fn take_in_orphans() -> ! {
    let wanted = signals();
    // SAFETY: the set is complete; the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const wanted, ptr::null_mut()) };
    // SAFETY: takes nothing.
    unsafe { libc::setsid() };
    let _ = call(libc::SYS_prctl, [libc::PR_SET_NAME.into(), name()]);
    no_capabilities();
    // The last step: whoever made us waits for the end of its pipe.
    // SAFETY: this process uses no descriptor any more.
    unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0) };
    loop {
        match next(&wanted) {
            Some((libc::SIGTERM, 0)) => exit(0),
            // SAFETY: no status is asked for, and nobody is waited for that has not ended.
            Some(_) => while unsafe { libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) } > 0 {},
            None => {}
        }
    }
}

/// The next signal and who sent it; from outside of the namespace that is nobody.
fn next(wanted: &libc::sigset_t) -> Option<(c_int, libc::pid_t)> {
    let mut about = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the set is complete, and a whole description is written to `about`.
    let signal = unsafe { libc::sigwaitinfo(wanted, about.as_mut_ptr()) };
    if signal < 0 {
        return None;
    }
    // SAFETY: it began as all zero, which is a description, and the kernel has written another.
    let about = unsafe { about.assume_init() };
    // SAFETY: signals sent by `kill` have a sender; for others the number is not looked at.
    let sender = unsafe { about.si_pid() };
    Some((signal, sender))
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
    let name: &'static std::ffi::CStr = c"wardlet-init";
    // The kernel takes a pointer as a number here.
    c_long::try_from(name.as_ptr().addr()).unwrap_or(0)
}

/// It needs none, whoever it is.
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
    // SAFETY: ends this process without running anything of the one that it is a copy of.
    unsafe { libc::_exit(code) }
}
