//! Signals as the caller of this program left them. Rust ignores SIGPIPE before a program's first line is run, and unblocks
//! all signals for every program that it starts; whoever stands in front of another program is to change neither.

use std::ffi::{CString, OsStr, OsString, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether SIGPIPE was ignored when this program began.
static IGNORED: AtomicBool = AtomicBool::new(false);

/// Run before Rust's own beginning.
#[used]
// SAFETY: what is in this section is run once, before `main`, by the only thread.
#[unsafe(link_section = ".init_array")]
static BEGINNING: extern "C" fn() = {
    extern "C" fn note() {
        IGNORED.store(disposition(libc::SIGPIPE) == libc::SIG_IGN, Ordering::Relaxed);
    }
    note
};

/// To write to a pipe that nobody reads is an error from here on.
pub(crate) fn ignore_broken_pipes() {
    set(libc::SIGPIPE, libc::SIG_IGN);
}

/// Gives every signal that the caller ignores its default action again, so that no container inherits what the caller
/// of a node's service ignores. SIGPIPE stays ignored in this program, as Rust has it; a command that it starts has the default.
pub fn default_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        if signal != libc::SIGPIPE && disposition(signal) == libc::SIG_IGN {
            set(signal, libc::SIG_DFL);
        }
    }
}

/// Becomes another program, in this environment: the same process, with the descriptors that are to outlive this program and
/// the signals that it was given. It is called by its path, with these words behind. Comes back only if that failed.
pub fn turn_into(program: &Path, words: &[OsString]) -> io::Error {
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

/// Has the program that `command` starts begin with the signals that this one was given.
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

fn restore() {
    let before = if IGNORED.load(Ordering::Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL };
    set(libc::SIGPIPE, before);
}

fn set(signal: c_int, disposition: libc::sighandler_t) {
    // SAFETY: it is to be ignored or to have its usual effect; no handler is set.
    unsafe { libc::signal(signal, disposition) };
}

fn disposition(signal: c_int) -> libc::sighandler_t {
    // SAFETY: all zero is one that says nothing.
    let mut found: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set; what is set is written to `found`.
    unsafe { libc::sigaction(signal, ptr::null(), &raw mut found) };
    found.sa_sigaction
}

fn blocked() -> libc::sigset_t {
    // SAFETY: all zero is an empty set.
    let mut found: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set; what is blocked is written to `found`.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, ptr::null(), &raw mut found) };
    found
}
