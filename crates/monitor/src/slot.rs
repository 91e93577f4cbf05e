use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{DupFlags, dup2, dup3};

/// The descriptor by which a container's helper tells what came of it.
const NUMBER: i32 = 3;

/// The number 3 among this process's descriptors, held so that nothing else ever has it. For the moment of
/// starting a helper it is that helper's result pipe, and inherited; before and after it is nothing, and
/// not inherited. There is one thread, so nobody else starts a program meanwhile.
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
            return Err(format!("descriptor {NUMBER} was inherited from whoever started this program"));
        }
        Ok(Self { held, nothing: nothing()? })
    }

    pub(crate) fn nothing(&self) -> BorrowedFd<'_> {
        self.nothing.as_fd()
    }

    /// Does something that starts one program, which has `lent` as its descriptor 3.
    pub(crate) fn lend<T>(&mut self, lent: BorrowedFd<'_>, act: impl FnOnce() -> T) -> std::io::Result<T> {
        dup2(lent, &mut self.held)?;
        let done = act();
        dup3(&self.nothing, &mut self.held, DupFlags::CLOEXEC)?;
        Ok(done)
    }
}
