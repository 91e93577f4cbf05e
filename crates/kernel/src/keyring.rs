use std::ffi::c_long;
use std::ptr;

use rustix::io::Errno;

use crate::userns::last_errno;
use crate::{Error, Result};

const KEYCTL_JOIN_SESSION_KEYRING: c_long = 1;

/// Gives the calling process, and those that it starts, a new session keyring: keys in the keyring of the process that
/// started it are not theirs. A kernel without keyrings is fine.
pub fn new_session_keyring() -> Result<()> {
    leave().map_err(|errno| Error::Keyring { errno })
}

/// The bare system call, for callers that must not allocate.
pub(crate) fn leave() -> std::result::Result<(), Errno> {
    let unnamed = ptr::null::<u8>();
    // SAFETY: without a name the kernel reads nothing.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, unnamed) };
    if result >= 0 {
        return Ok(());
    }
    match last_errno() {
        Errno::NOSYS => Ok(()),
        errno => Err(errno),
    }
}
