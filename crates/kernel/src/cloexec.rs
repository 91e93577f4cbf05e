use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};

use crate::{Error, Result};

/// Takes an inherited descriptor by number. It gets close-on-exec, so that programs which this one starts do not
/// inherit it, and it cannot be taken twice.
pub fn inherited(number: RawFd) -> Result<OwnedFd> {
    let failed = |errno| Error::NotInherited { number, errno };
    let given = borrowed(number).map_err(failed)?;
    // Only what lacks this flag outlives the start of a program.
    if fcntl_getfd(given).map_err(failed)?.contains(FdFlags::CLOEXEC) {
        return Err(failed(Errno::BADF));
    }
    fcntl_setfd(given, FdFlags::CLOEXEC).map_err(failed)?;
    // SAFETY: it is open, and nothing in this program owns it: all that this program opens has the flag that was
    // missing, and so has this from now on.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Sets close-on-exec on a descriptor, wherever it was opened. Fails with EBADF if the number is not open.
pub fn set_cloexec(number: RawFd) -> Result<()> {
    let failed = |errno| Error::NotInherited { number, errno };
    let given = borrowed(number).map_err(failed)?;
    fcntl_setfd(given, FdFlags::CLOEXEC).map_err(failed)
}

fn borrowed<'a>(number: RawFd) -> std::result::Result<BorrowedFd<'a>, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is not negative, and is only used for calls that say so if it is not open.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, IntoRawFd};

    use super::*;

    #[test]
    fn a_number_that_is_not_open_is_refused() {
        for number in [-1, 1_000_000] {
            let error = inherited(number).unwrap_err();
            assert_eq!(error, Error::NotInherited { number, errno: Errno::BADF });
        }
    }

    #[test]
    fn what_this_program_opened_itself_is_not_taken_and_what_it_was_given_is_taken_once() {
        let own = std::fs::File::open("/proc/self/stat").unwrap();
        assert!(inherited(own.as_raw_fd()).is_err());
        let number = own.into_raw_fd();
        fcntl_setfd(borrowed(number).unwrap(), FdFlags::empty()).unwrap();
        let taken = inherited(number).unwrap();
        assert!(inherited(number).is_err());
        assert_eq!(taken.as_raw_fd(), number, "no second one is left open");
    }
}
