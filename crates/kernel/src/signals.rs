//! Restores the caller's signal dispositions and standard descriptors for the program that this process execs.
//!
//! Before `main`, Rust's runtime ignores SIGPIPE and opens `/dev/null` in the place of a closed standard descriptor, and
//! [`Command`] unblocks all signals in the program that it starts. A program that stands in front of another one must
//! change none of these.

use std::ffi::{CString, OsStr, OsString, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Whether SIGPIPE was ignored when this program began.
static IGNORED: AtomicBool = AtomicBool::new(false);
/// Which of descriptors 0 to 2 were closed when this program began, one bit each.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Records both before Rust's runtime changes them. Stable Rust has no other way to learn of them.
#[used]
// SAFETY: a pointer to a function that takes no arguments is valid in this section. The C library calls it once, before
// `main`, on the only thread; it only makes system calls and stores to atomics, which need no runtime.
#[unsafe(link_section = ".init_array")]
static BEGINNING: extern "C" fn() = {
    extern "C" fn note() {
        IGNORED.store(disposition(libc::SIGPIPE) == libc::SIG_IGN, Ordering::Relaxed);
        let closed = STANDARD.iter().filter(|(fd, _)| is_closed(*fd)).fold(0, |bits, (_, bit)| bits | bit);
        CLOSED.store(closed, Ordering::Relaxed);
    }
    note
};

/// The standard descriptors, each with its bit in [`CLOSED`].
const STANDARD: [(c_int, u8); 3] =
    [(libc::STDIN_FILENO, 1), (libc::STDOUT_FILENO, 2), (libc::STDERR_FILENO, 4)];

/// Resets every ignored signal to its default action, so that no container inherits what the caller of a node's
/// service ignores. SIGPIPE stays ignored in this program, as Rust has it; a command that it starts has the default.
pub fn default_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        if signal != libc::SIGPIPE && disposition(signal) == libc::SIG_IGN {
            set(signal, libc::SIG_DFL);
        }
    }
}

/// Execs `program` by its path with the arguments `words`, in this environment: the same process, with the descriptors
/// that are not close-on-exec and the signals of the caller. Returns only if that failed.
pub fn exec(program: &Path, words: &[OsString]) -> io::Error {
    let all = [program.as_os_str()].into_iter().chain(words.iter().map(OsString::as_os_str));
    let Ok(texts) = all.map(text).collect::<Result<Vec<_>, _>>() else {
        return io::Error::from_raw_os_error(libc::EINVAL);
    };
    let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
    let Some(path) = texts.first() else { return io::Error::from_raw_os_error(libc::EINVAL) };
    restore();
    // SAFETY: a path that ends in NUL, and a list of such texts that ends in a null pointer; all outlive the call.
    unsafe { libc::execvp(path.as_ptr(), pointers.as_ptr()) };
    let failed = io::Error::last_os_error();
    set(libc::SIGPIPE, libc::SIG_IGN);
    failed
}

/// Makes the program that `command` starts begin with the signals of this program's caller.
pub fn with_callers_signals(command: &mut Command) -> &mut Command {
    let blocked = blocked();
    let back = move || {
        restore();
        // SAFETY: a whole set, as the kernel gave it.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const blocked, ptr::null_mut()) };
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(back) }
}

fn text(word: &OsStr) -> Result<CString, std::ffi::NulError> {
    CString::new(word.as_bytes())
}

/// Restores the caller's dispositions for the next `exec` of this process. Only makes system calls, so that it can run
/// between fork and exec.
fn restore() {
    let before = if IGNORED.load(Ordering::Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL };
    set(libc::SIGPIPE, before);
    let closed = CLOSED.load(Ordering::Relaxed);
    for (fd, _) in STANDARD.into_iter().filter(|(_, bit)| closed & bit != 0) {
        // SAFETY: no memory is passed. The descriptor is the `/dev/null` that Rust's runtime opened, and stays open here.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

fn is_closed(fd: c_int) -> bool {
    // SAFETY: no memory is passed; a number that is not open is an error of the call.
    unsafe { libc::fcntl(fd, libc::F_GETFD) == -1 }
}

fn set(signal: c_int, disposition: libc::sighandler_t) {
    // SAFETY: it is to be ignored or to have its usual effect; no handler is set.
    unsafe { libc::signal(signal, disposition) };
}

fn disposition(signal: c_int) -> libc::sighandler_t {
    // SAFETY: all zero is a valid `sigaction`.
    let mut found: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: no action is set; the current one is written to `found`, which is valid for writing.
    unsafe { libc::sigaction(signal, ptr::null(), &raw mut found) };
    found.sa_sigaction
}

fn blocked() -> libc::sigset_t {
    // SAFETY: all zero is an empty set.
    let mut found: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: no mask is set; the current one is written to `found`, which is valid for writing.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, ptr::null(), &raw mut found) };
    found
}
