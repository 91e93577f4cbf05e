use std::ffi::{c_int, c_long, c_void};
use std::fs::File;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use ids::HostId;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Signal, Uid, WaitId, WaitIdOptions, WaitIdStatus, pidfd_send_signal,
    set_dumpable_behavior, waitid,
};
use rustix::thread::{CapabilitySets, capabilities, set_capabilities, set_thread_res_uid};

use crate::{Error, Result};

/// The child makes eight system calls at most; 16 KiB is plenty, also without optimisation.
const STACK_UNITS: usize = 16 * 1024 / size_of::<u128>();

/// Without an exit signal: no handler or `wait` elsewhere in this process hears of the child.
const FLAGS: c_int = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_PIDFD;

/// The child has not come to rest yet.
const UNDER_WAY: i32 = i32::MIN;

/// A process in a user namespace of its own that does nothing, and is gone when this is dropped.
///
/// It shares our memory (so that its making costs the same in a process of any size) and dies when
/// we do, however that happens.
pub(crate) struct PausedChild {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    /// The child runs on this until it is reaped. `u128` for the alignment that ABIs ask of stacks.
    stack: Box<[u128]>,
    /// The child reads and writes it until it is reaped.
    orders: Box<Orders>,
}

/// Why a child did not come to rest.
enum Stopped {
    /// This step failed.
    At(i32, Errno),
    /// It did not come to any.
    Else(Error),
}

/// What the parent and the child exchange.
struct Orders {
    parent: libc::pid_t,
    steps: Steps,
    /// The step under way; the one that failed, if one did.
    step: AtomicI32,
    /// 0 once it rests, the kernel's answer if a step failed.
    outcome: AtomicI32,
}

/// What the child does before it rests, in this order.
#[derive(Debug)]
pub(crate) struct Steps {
    /// A user to become, with all our capabilities: what is new is counted among that user's.
    pub(crate) charge: Option<(Uid, CapabilitySets)>,
    /// A user namespace to go into; negative for none. It must stay open until the child rests.
    pub(crate) join: c_int,
    /// Kinds of namespaces to have new ones of, as flags; 0 for none. In a user namespace to go into, as its root.
    pub(crate) unshare: c_int,
    /// The host's name to be set, by which time the UTS namespace must be a new one.
    pub(crate) hostname: Option<Vec<u8>>,
}

const CHARGING: i32 = 0;
const JOINING: i32 = 1;
const BECOMING: i32 = 2;
const UNSHARING: i32 = 3;
const NAMING: i32 = 4;

impl Steps {
    const NONE: Self = Self { charge: None, join: -1, unshare: 0, hostname: None };
}

impl PausedChild {
    /// In a user namespace of its own, without maps yet.
    pub(crate) fn start() -> Result<Self> {
        Self::clone(libc::CLONE_NEWUSER, Steps::NONE)
    }

    /// The same, with a user namespace that is another user's and is counted among those of that user. No thread of ours
    /// is ever that user.
    pub(crate) fn start_as(user: HostId) -> Result<Self> {
        let failed = |errno| Error::Charge { uid: user.get(), errno };
        let charge = Some((Uid::from_raw(user.get()), capabilities(None).map_err(failed)?));
        Self::come_to_rest(Steps { charge, unshare: libc::CLONE_NEWUSER, ..Steps::NONE }).map_err(|stopped| {
            match stopped {
                Stopped::At(CHARGING, errno) => failed(errno),
                Stopped::At(_, errno) => Error::StartChild { errno },
                Stopped::Else(error) => error,
            }
        })
    }

    /// In this user namespace. Returns when the child is in it.
    pub(crate) fn start_in(namespace: BorrowedFd<'_>) -> Result<Self> {
        let steps = Steps { join: namespace.as_raw_fd(), ..Steps::NONE };
        Self::come_to_rest(steps).map_err(|stopped| match stopped {
            Stopped::At(_, errno) => Error::AskNamespace { what: "the maps of a user namespace", errno },
            Stopped::Else(error) => error,
        })
    }

    /// After these steps. Returns when the child has made them.
    pub(crate) fn start_with(steps: Steps) -> Result<Self> {
        Self::come_to_rest(steps).map_err(|stopped| match stopped {
            Stopped::At(step, errno) => Error::NewNamespaces { step: step_words(step), errno },
            Stopped::Else(error) => error,
        })
    }

    fn come_to_rest(steps: Steps) -> std::result::Result<Self, Stopped> {
        let child = Self::clone(0, steps).map_err(Stopped::Else)?;
        loop {
            // Nothing here touches `errno`, which is the child's until it has reported: rustix does not.
            match child.orders.outcome.load(Ordering::Acquire) {
                UNDER_WAY if child.is_running() => rustix::thread::sched_yield(),
                UNDER_WAY => return Err(Stopped::Else(Error::ChildGone { pid: child.pid })),
                0 => return Ok(child),
                errno => {
                    let errno = Errno::from_raw_os_error(errno);
                    return Err(Stopped::At(child.orders.step.load(Ordering::Acquire), errno));
                }
            }
        }
    }

    fn clone(flags: c_int, steps: Steps) -> Result<Self> {
        let mut stack = vec![0u128; STACK_UNITS].into_boxed_slice();
        let mut pidfd: c_int = -1;
        let top = stack.as_mut_ptr_range().end.cast::<c_void>();
        let parent = libc::pid_t::try_from(std::process::id()).unwrap_or(libc::pid_t::MAX);
        let (step, outcome) = (AtomicI32::new(CHARGING), AtomicI32::new(UNDER_WAY));
        let orders = Box::new(Orders { parent, steps, step, outcome });
        // A handler of ours must never run in the child, on our memory: it starts with all blocked.
        let _blocked = BlockedSignals::all().map_err(|errno| Error::StartChild { errno })?;
        // SAFETY: `stack` and `orders` outlive the child (see `Drop`); the stack is aligned, grows down from `top` and
        // has no other user; `pidfd` lives across the call, which is where the kernel writes it; `pause_until_killed`
        // touches no memory but its stack and its orders.
        let pid = unsafe {
            libc::clone(
                pause_until_killed,
                top,
                FLAGS | flags,
                ptr::from_ref::<Orders>(&orders).cast_mut().cast(),
                &raw mut pidfd,
            )
        };
        if pid < 0 {
            return Err(Error::StartChild { errno: last_errno() });
        }
        // SAFETY: clone succeeded, so CLONE_PIDFD has stored a descriptor that no other value owns.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        Ok(Self { pid, pidfd, stack, orders })
    }

    /// The child's directory in /proc, proven to be the child's and of no later process: everything
    /// opened below it fails once the child is gone.
    pub(crate) fn proc_dir(&self) -> Result<ProcDir> {
        let dir = ProcDir::open_at(PathBuf::from(format!("/proc/{}", self.pid)))?;
        // Still running after the directory was opened: its process ID was not used anew before.
        if self.is_running() { Ok(dir) } else { Err(Error::ChildGone { pid: self.pid }) }
    }

    fn is_running(&self) -> bool {
        matches!(self.wait(WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT), Ok(None))
    }

    fn wait(&self, options: WaitIdOptions) -> rustix::io::Result<Option<WaitIdStatus>> {
        // Children without an exit signal are invisible to a wait without __WALL.
        let all = WaitIdOptions::from_bits_retain(libc::__WALL.cast_unsigned());
        waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED | all | options)
    }

    fn end(&self) -> rustix::io::Result<()> {
        pidfd_send_signal(&self.pidfd, Signal::KILL)?;
        loop {
            match self.wait(WaitIdOptions::empty()) {
                Err(Errno::INTR) => {}
                // ECHILD: another wait in this process came first; gone all the same.
                Ok(_) | Err(Errno::CHILD) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl Drop for PausedChild {
    fn drop(&mut self) {
        // A child that may still run keeps its stack: a leak is harmless, a freed stack is not.
        if !matches!(self.end(), Ok(()) | Err(Errno::SRCH)) {
            mem::forget(mem::take(&mut self.stack));
            let steps = Steps::NONE;
            let (step, outcome) = (AtomicI32::new(CHARGING), AtomicI32::new(0));
            let nobodys = Orders { parent: 0, steps, step, outcome };
            mem::forget(mem::replace(&mut self.orders, Box::new(nobodys)));
        }
    }
}

/// A process's directory in /proc.
pub(crate) struct ProcDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl ProcDir {
    /// That of whichever process has it now; no other one is ever found through it.
    pub(crate) fn open_at(path: PathBuf) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path }),
            Err(errno) => Err(Error::Open { path, errno }),
        }
    }

    pub(crate) fn open(&self, name: &str, flags: OFlags) -> Result<File> {
        rustix::fs::openat(&self.fd, name, flags | OFlags::CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(|errno| Error::Open { path: self.path.join(name), errno })
    }
}

/// The child. It shares our memory, thread-local storage included, so it makes only system calls
/// that cannot fail (a failing one would write our `errno`) and never returns. Those that can fail
/// come first, while its maker waits without touching `errno`.
extern "C" fn pause_until_killed(orders: *mut c_void) -> c_int {
    // SAFETY: `PausedChild` keeps the orders where they are until this process is gone, and no mutable reference to
    // them exists.
    let orders = unsafe { &*orders.cast::<Orders>() };
    let outcome = prepare(orders);
    // After that: a change of namespace makes the kernel forget the signal.
    raw_call(libc::SYS_prctl, libc::PR_SET_PDEATHSIG.into(), libc::SIGKILL.into());
    orders.outcome.store(outcome, Ordering::Release);
    // If the parent died before the call above, no signal will come. (If only the thread did that made
    // us, we are now another's of its threads, and the last of them takes us along.)
    if raw_call(libc::SYS_getppid, 0, 0) != c_long::from(orders.parent) {
        raw_call(libc::SYS_exit_group, 1, 0);
    }
    loop {
        // No descriptors and no time limit: waits for ever. (Not every architecture has `pause`.)
        raw_call(libc::SYS_ppoll, 0, 0);
    }
}

/// The steps; 0 or the kernel's answer to the one that failed.
fn prepare(orders: &Orders) -> i32 {
    let steps = &orders.steps;
    if let Some(Err(errno)) = steps.charge.map(|(user, capabilities)| become_user(user, capabilities)) {
        return errno.raw_os_error();
    }
    let calls: [(i32, &dyn Fn() -> bool); 4] = [
        (JOINING, &|| {
            steps.join < 0 || raw_call(libc::SYS_setns, steps.join.into(), libc::CLONE_NEWUSER.into()) == 0
        }),
        (BECOMING, &|| steps.join < 0 || steps.unshare == 0 || become_root()),
        (UNSHARING, &|| steps.unshare == 0 || raw_call(libc::SYS_unshare, steps.unshare.into(), 0) == 0),
        (NAMING, &|| steps.hostname.as_ref().is_none_or(|name| set_host_name(name))),
    ];
    for (step, call) in calls {
        orders.step.store(step, Ordering::Release);
        if !call() {
            return io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        }
    }
    0
}

/// Only the effective ID: the saved one stays ours, so the permitted capabilities do, too.
fn become_user(user: Uid, ours: CapabilitySets) -> rustix::io::Result<()> {
    set_thread_res_uid(None, user, None)?;
    set_capabilities(None, ours)?;
    // With `fs.suid_dumpable` at 1 the kernel has just allowed that user to look into our memory.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// What is created with a namespace belongs to the creating process, the directory of message queues at least: created
/// by the host's root, which has no ID inside, it would have the overflow ID. Without a root inside it stays so.
fn become_root() -> bool {
    let all_of = |call| {
        // SAFETY: the call takes three plain numbers.
        let answer = unsafe { libc::syscall(call, 0 as c_long, 0 as c_long, 0 as c_long) };
        answer == 0 || last_errno() == Errno::INVAL
    };
    all_of(libc::SYS_setresgid) && all_of(libc::SYS_setresuid)
}

fn set_host_name(name: &[u8]) -> bool {
    // SAFETY: the kernel reads that many bytes from there, which the child's maker keeps.
    unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) == 0 }
}

fn step_words(step: i32) -> &'static str {
    match step {
        CHARGING => "take on the user that they are counted against",
        JOINING => "go into the user namespace that they are to belong to",
        BECOMING => "become the root of that user namespace",
        UNSHARING => "leave our own for new ones",
        _ => "set the host's name in the new one",
    }
}

fn raw_call(number: c_long, first: c_long, second: c_long) -> c_long {
    // SAFETY: the calls made above are given plain numbers, descriptors and null pointers that they allow.
    unsafe { libc::syscall(number, first, second, 0 as c_long, 0 as c_long, 0 as c_long) }
}

/// All signals of this thread blocked until dropped.
pub(crate) struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    pub(crate) fn all() -> rustix::io::Result<Self> {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the pointer is valid for writing a whole set.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `all` was filled above; `before` is valid for writing a whole set.
        let failed = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        if failed != 0 {
            return Err(Errno::from_raw_os_error(failed));
        }
        // SAFETY: the call succeeded, so it has written the set.
        Ok(Self { before: unsafe { before.assume_init() } })
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: `before` is the set that the kernel gave us; no old set is asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}

/// The reason why the libc call just made failed.
pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_child_is_gone_when_its_handle_is() {
        let child = PausedChild::start().unwrap();
        let dir = PathBuf::from(format!("/proc/{}", child.pid));
        assert!(dir.exists());
        drop(child);
        assert!(!dir.exists());
    }

    #[test]
    fn a_child_killed_by_somebody_else_is_noticed() {
        let child = PausedChild::start().unwrap();
        child.end().unwrap();
        assert!(child.proc_dir().is_err());
    }

    /// The kernel sends the signal when a parent's thread ends: for the child that is our death.
    #[test]
    fn a_child_that_has_come_to_rest_dies_with_its_maker() {
        let child = thread::spawn(|| {
            let child = mem::ManuallyDrop::new(PausedChild::start().unwrap());
            soon("the child rests", || state(child.pid) == Some('S'));
            child
        });
        let child = child.join().unwrap();
        soon("the child is dead", || child.wait(WaitIdOptions::NOHANG).unwrap().is_some());
        assert!(!Path::new(&format!("/proc/{}", child.pid)).exists());
    }

    fn state(pid: libc::pid_t) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().and_then(|fields| fields.chars().next())
    }

    fn soon(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !holds() {
            assert!(Instant::now() < deadline, "not within 10 s: {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn our_own_signals_are_as_before() {
        let mask = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            status.lines().find(|line| line.starts_with("SigBlk")).unwrap().to_owned()
        };
        let before = mask();
        drop(PausedChild::start().unwrap());
        assert_eq!(mask(), before);
    }
}
