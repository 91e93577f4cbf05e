use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use crate::{Error, Result};

/// A descriptor that whoever started this program left open for it, by number. The number itself is no
/// longer handed on to programs that this one starts.
pub fn inherited(number: RawFd) -> Result<OwnedFd> {
    let failed = |errno| Error::NotInherited { number, errno };
    if number < 0 {
        return Err(failed(Errno::BADF));
    }
    // SAFETY: the number is not negative, and is only used for two calls that say so if it is not open.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_setfd(given, FdFlags::CLOEXEC).map_err(failed)?;
    fcntl_dupfd_cloexec(given, 3).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_open_is_refused() {
        for number in [-1, 1_000_000] {
            let error = inherited(number).unwrap_err();
            assert_eq!(error, Error::NotInherited { number, errno: Errno::BADF });
        }
    }
}
