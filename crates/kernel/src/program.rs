//! The beginning of a program that is run so often that what Rust does before its first line counts: it reads the process's
//! own mappings and prepares to say that a stack has overflowed, in every thread.

use std::mem::forget;
use std::os::fd::AsRawFd as _;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};

use crate::signals;

/// Makes a function that gives the code to end with a program, as `main` is otherwise. Of what Rust does before, the
/// program has what it needs: see [`begin`].
#[macro_export]
macro_rules! program {
    ($run:path) => {
        // SAFETY: the one function that the C library calls, once, with two arguments.
        #[unsafe(no_mangle)]
        extern "C" fn main(_: std::ffi::c_int, _: *const *const std::ffi::c_char) -> std::ffi::c_int {
            $crate::begin();
            std::process::exit($run().into())
        }
    };
}

/// What has to be before anything else is done: the three descriptors that everybody takes for granted are open, so that no
/// file that is opened later is taken for one of them; and to write to a pipe that nobody reads is an error, and no end.
///
/// A program that this one becomes finds both as this one was given them.
pub fn begin() {
    let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let mut asked = standard.each_ref().map(|fd| PollFd::new(fd, PollFlags::empty()));
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let asked = poll(&mut asked, Some(&now)).map(|_| asked);
    if !asked.is_ok_and(|fds| fds.iter().all(|fd| !fd.revents().contains(PollFlags::NVAL))) {
        open_what_is_closed();
    }
    signals::ignore_broken_pipes();
}

fn open_what_is_closed() {
    loop {
        match open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            Ok(null) if null.as_raw_fd() <= 2 => forget(null),
            Ok(_) => return,
            // Nothing can be done without them, nor be said.
            Err(_) => std::process::abort(),
        }
    }
}
