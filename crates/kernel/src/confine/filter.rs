use std::ffi::c_long;

use rustix::io::Errno;

use super::Filter;
use crate::userns::last_errno;

/// From the kernel's `seccomp.h`.
const SECCOMP_SET_MODE_FILTER: c_long = 1;
/// One instruction: two bytes of code, two of jumps, four of data.
const INSTRUCTION: usize = 8;

/// Sets the seccomp filter on the calling thread, at once.
pub(super) fn load(filter: &Filter) -> Result<(), Errno> {
    let whole = filter.program.len().is_multiple_of(INSTRUCTION) && !filter.program.is_empty();
    let length = u16::try_from(filter.program.len() / INSTRUCTION).ok().filter(|_| whole);
    let len = length.ok_or(Errno::INVAL)?;
    let program = libc::sock_fprog { len, filter: filter.program.as_ptr().cast_mut().cast() };
    // SAFETY: the kernel reads `len` instructions of eight bytes each from `filter`, which is that long
    // and outlives the call; it copies bytes, so their alignment does not matter.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SECCOMP_SET_MODE_FILTER,
            c_long::from(filter.flags),
            &raw const program,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_no_or_broken_instructions_is_refused() {
        for bytes in [0, 7, 12] {
            let filter = Filter { program: vec![0; bytes], flags: 0 };
            assert_eq!(load(&filter), Err(Errno::INVAL), "{bytes}");
        }
    }
}
