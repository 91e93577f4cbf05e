use std::ffi::c_long;

/// `KCMP_VM` and `KCMP_FILES` of linux/kcmp.h.
const MEMORY: c_long = 1;
const FILES: c_long = 2;

/// Whether two tasks, by their PIDs in our own PID namespace, share one descriptor table, as the threads of a process
/// mostly do. Where the kernel does not support the comparison, the answer is no.
#[must_use]
pub fn share_descriptors(one: u32, other: u32) -> bool {
    share(FILES, one, other)
}

/// Whether two tasks, by their PIDs in our own PID namespace, share one address space. Kernel threads and zombies have
/// none, and compare as equal. Where the kernel does not support the comparison, the answer is no.
#[must_use]
pub fn share_memory(one: u32, other: u32) -> bool {
    share(MEMORY, one, other)
}

fn share(what: c_long, one: u32, other: u32) -> bool {
    let unused: c_long = 0;
    // SAFETY: `kcmp` takes numbers only.
    let order = unsafe {
        libc::syscall(libc::SYS_kcmp, c_long::from(one), c_long::from(other), what, unused, unused)
    };
    order == 0
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Whether a thread of ours shares our descriptors, after it has done this.
    fn shares(first: impl FnOnce() + Send) -> bool {
        let (told, hears) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                first();
                told.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                let _ = ended.recv();
            });
            let thread = u32::try_from(hears.recv().unwrap()).unwrap();
            let shares = share_descriptors(std::process::id(), thread);
            drop(end);
            shares
        })
    }

    #[test]
    fn a_thread_has_our_descriptors_until_it_has_some_of_its_own() {
        assert!(shares(|| ()));
        // SAFETY: the thread opens and closes nothing afterwards that another one counts on.
        let apart = || assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
        assert!(!shares(apart));
    }

    #[test]
    fn one_that_is_not_there_shares_nothing() {
        assert!(!share_descriptors(std::process::id(), u32::MAX >> 2));
    }
}
