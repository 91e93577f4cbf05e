use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, chdir, getpid, pidfd_open, setsid};

use crate::userns::{BlockedSignals, last_errno};
use crate::{Error, Result};

/// Its system calls need little; 16 KiB are plenty, also without optimisation.
const STACK_UNITS: usize = 16 * 1024 / size_of::<u128>();

/// Has this process's own program run, with these words (its name is the first) and in this environment, as soon as this
/// process has ended, however it ends and whatever program it is by then.
///
/// It is run when a processor has nothing else to do: whoever waits for the end of this process goes on with what it wanted the
/// process for, and on a small host would have to share the processor with a program that begins. What others wait for is
/// not to be done so: see [`as_others`].
///
/// Until then one is left behind who waits, with none of our descriptors, our directory or our terminal. Nor is it a child
/// of this process: the program that it becomes may wait for all that it has. All signals are blocked for it, as for the
/// program: only SIGKILL keeps that from being run to its end.
///
/// What must stay true: whoever is left behind is on our memory, which it keeps when this process becomes another program.
/// Nothing is copied, and other threads are no hindrance; so until we have ended it makes only system calls that leave
/// `errno` alone, on its own stack. What it finds then may be half changed, if we were killed. It uses only what was
/// written before it began. The kernel ends all who share a memory when it is short of it, and before 5.16 when one of them
/// leaves a core: then nobody is left.
pub fn afterwards(words: &[OsString], environment: &[(OsString, OsString)]) -> Result<()> {
    let failed = |errno| Error::LeaveBehind { errno };
    // Ours from here on, whoever has our number later.
    let us = pidfd_open(getpid(), PidfdFlags::empty()).map_err(failed)?;
    let pairs: Vec<OsString> = environment.iter().map(|(name, value)| pair(name, value)).collect();
    let (words, environment) = (texts(words).map_err(failed)?, texts(&pairs).map_err(failed)?);
    let _blocked = BlockedSignals::all().map_err(failed)?;
    // Neither is ever given back: who is left behind has both until it is another program.
    let behind = Box::leak(Box::new(Behind { us: us.as_raw_fd(), words, environment }));
    let stack = vec![0u128; STACK_UNITS].leak();
    let mut order =
        Order { behind, top: stack.as_mut_ptr_range().end.cast(), outcome: Errno::CANCELED.raw_os_error() };
    let mut stack = vec![0u128; STACK_UNITS].into_boxed_slice();
    let top = stack.as_mut_ptr_range().end.cast::<c_void>();
    // One between us and the one who is left behind, who ends at once: the other is then a child of whoever looks after
    // those that have lost their parent. Without an exit signal: nothing else in this process hears of it.
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: this thread stands still until the one between has ended (CLONE_VFORK), so that it is alone with `order`,
    // `stack` and `errno`, which all outlive it. The stack is aligned and grows down from `top`.
    let between = unsafe { libc::clone(between, top, flags, (&raw mut order).cast()) };
    if between < 0 {
        return Err(failed(last_errno()));
    }
    // It has ended. Where ends of children are ignored, as a caller may have it, there is nothing left of it.
    // SAFETY: no status is asked for.
    while unsafe { libc::waitpid(between, ptr::null_mut(), libc::__WALL) } < 0 && last_errno() == Errno::INTR
    {
    }
    if order.outcome == 0 { Ok(()) } else { Err(failed(Errno::from_raw_os_error(order.outcome))) }
}

/// What the one between is told, and where it tells what came of it.
struct Order {
    behind: *mut Behind,
    /// Where the stack of the one who is left behind begins.
    top: *mut c_void,
    outcome: c_int,
}

/// What the one who is left behind knows.
struct Behind {
    us: RawFd,
    words: Texts,
    environment: Texts,
}

/// Texts as the kernel reads them: the last pointer is null. They are there for as long as the memory is.
type Texts = &'static [*const c_char];

fn texts(all: &[OsString]) -> std::result::Result<Texts, Errno> {
    let one = |text: &OsString| CString::new(text.as_bytes()).map_err(|_| Errno::INVAL);
    let whole = all.iter().map(one).collect::<std::result::Result<Vec<_>, _>>()?;
    let pointers = whole.into_iter().map(|text| text.into_raw().cast_const());
    Ok(pointers.chain([ptr::null()]).collect::<Vec<_>>().leak())
}

fn pair(name: &OsStr, value: &OsStr) -> OsString {
    let mut pair = name.to_owned();
    pair.push("=");
    pair.push(value);
    pair
}

extern "C" fn between(order: *mut c_void) -> c_int {
    // SAFETY: it is the order of the one who stands still for us.
    let order = unsafe { &mut *order.cast::<Order>() };
    let flags = libc::CLONE_VM | libc::SIGCHLD;
    // SAFETY: the stack is aligned, grows down from `top` and is nobody else's, as is what `stay_behind` is given.
    let pid = unsafe { libc::clone(stay_behind, order.top, flags, order.behind.cast()) };
    order.outcome = if pid < 0 { last_errno().raw_os_error() } else { 0 };
    0
}

/// Has this process share the processors as others do, also if it was [left behind](afterwards).
pub fn as_others() {
    schedule(libc::SCHED_OTHER);
}

/// Whoever is refused goes on as it is; nobody is refused these two.
fn schedule(policy: c_int) {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: a whole value, which is only read.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const none) };
}

/// Lets go of all that this process has, waits for the end of the one it comes from, and becomes the program.
extern "C" fn stay_behind(behind: *mut c_void) -> c_int {
    // SAFETY: it was made for us alone, and is never given back.
    let behind = unsafe { &*behind.cast::<Behind>() };
    let (low, high) = (behind.us.cast_unsigned(), libc::c_uint::MAX);
    if low > 0 {
        // SAFETY: of all descriptors, of which it has its own copies, only the one between is used. It cannot fail for a
        // range that is one, on kernels from 5.9 on.
        unsafe { libc::syscall(libc::SYS_close_range, 0, low - 1, 0) };
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, low + 1, high, 0) };
    // What is opened later is not to be taken for what a program reads from and writes to.
    while let Ok(null) = open(c"/dev/null", OFlags::RDWR, Mode::empty()) {
        let is_last = null.as_raw_fd() >= 2;
        std::mem::forget(null);
        if is_last {
            break;
        }
    }
    let _ = (chdir(c"/"), setsid());
    // Not before: what it had of ours, such as a lock or the end of a pipe, others wait for.
    schedule(libc::SCHED_IDLE);
    // SAFETY: it is open, and nobody closes it before the program begins.
    let us = unsafe { BorrowedFd::borrow_raw(behind.us) };
    let mut ended = [PollFd::new(&us, PollFlags::IN)];
    while matches!(poll(&mut ended, None), Err(Errno::INTR)) {}
    // We are alone with the memory now.
    let (words, environment) = (behind.words.as_ptr(), behind.environment.as_ptr());
    // SAFETY: a path that ends in NUL, and lists that end in a null pointer.
    unsafe { libc::execve(c"/proc/self/exe".as_ptr(), words, environment) };
    // SAFETY: ends this process; there is nothing to go back to.
    unsafe { libc::_exit(127) }
}
