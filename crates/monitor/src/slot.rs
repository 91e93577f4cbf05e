use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{DupFlags, dup2, dup3};

/// The descriptor on which a container's helper writes its result.
const NUMBER: i32 = 3;

/// Descriptor 3 of this process, reserved so that no other file ever has that number. While a helper is started it is
/// the helper's result pipe, and inherited; before and after it is `/dev/null`, and not inherited. The process has one
/// thread, so that no other program is started meanwhile.
pub(crate) struct Slot {
    held: OwnedFd,
    nothing: OwnedFd,
}

impl Slot {
    /// To be called before anything else is opened.
    pub(crate) fn reserve() -> Result<Self, String> {
        let nothing = || {
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            open("/dev/null", flags, Mode::empty()).map_err(|errno| format!("cannot open /dev/null: {errno}"))
        };
        let held = nothing()?;
        if held.as_raw_fd() != NUMBER {
            return Err(format!(
                "descriptor {NUMBER} was inherited from the process that started this program"
            ));
        }
        Ok(Self { held, nothing: nothing()? })
    }

    pub(crate) fn nothing(&self) -> BorrowedFd<'_> {
        self.nothing.as_fd()
    }

    /// Calls a function that starts one program, which inherits `lent` as its descriptor 3.
    pub(crate) fn lend<T>(&mut self, lent: BorrowedFd<'_>, act: impl FnOnce() -> T) -> std::io::Result<T> {
        dup2(lent, &mut self.held)?;
        let done = act();
        dup3(&self.nothing, &mut self.held, DupFlags::CLOEXEC)?;
        Ok(done)
    }
}
