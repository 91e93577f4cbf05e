use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use rustix::io::Errno;

use crate::userns::last_errno;

/// The last of the kernel's signals.
const LAST: c_int = 64;

/// Sends a signal by its number, real-time ones included, to the process that is held by this descriptor.
///
/// # Errors
/// `EINVAL` if there is no signal of this number, `ESRCH` if the process has ended.
pub fn send_signal(pidfd: impl AsFd, number: i32) -> Result<(), Errno> {
    if !(1..=LAST).contains(&number) {
        return Err(Errno::INVAL);
    }
    let pidfd = pidfd.as_fd().as_raw_fd();
    // SAFETY: the descriptor is borrowed for the call; without a description the kernel makes up its own.
    match unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd, number, ptr::null::<libc::siginfo_t>(), 0)
    } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;
    use crate::Process;

    #[test]
    fn real_time_signals_are_sent_and_numbers_that_are_none_are_refused() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        for wrong in [-1, 0, 65] {
            assert_eq!(send_signal(&process, wrong), Err(Errno::INVAL));
        }
        send_signal(&process, 37).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(37));
        assert_eq!(send_signal(&process, 9), Err(Errno::SRCH));
    }
}
