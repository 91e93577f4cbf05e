use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use libc::c_int;

/// fcntl(2): which signal tells of a broken lease.
const F_SETSIG: c_int = 10;

/// Whether any process has this regular file open for writing, or mapped that way. The descriptor must be one for
/// reading only.
///
/// The kernel refuses a read lease in that case (fcntl(2), `F_SETLEASE`). The lease is given back at once; it delays a
/// process that opens the file for writing in between, and the signal about that is one that is ignored by default.
///
/// # Errors
/// If that cannot be known: the filesystem has no leases, or the file belongs to another user and the caller has no
/// `CAP_LEASE`.
pub fn is_open_for_writing(file: impl AsFd) -> io::Result<bool> {
    let fd = file.as_fd().as_raw_fd();
    // The default is SIGIO, which ends a process.
    control(fd, F_SETSIG, libc::SIGURG)?;
    match control(fd, libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => control(fd, libc::F_SETLEASE, libc::F_UNLCK).map(|()| false),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

fn control(fd: RawFd, command: c_int, argument: c_int) -> io::Result<()> {
    // SAFETY: these commands take an integer, and no pointer; the descriptor is borrowed by the caller.
    match unsafe { libc::fcntl(fd, command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::atomic::{AtomicBool, Ordering};

    use testkit::wait_until;

    use super::*;

    #[test]
    fn a_file_is_open_for_writing_until_its_last_writer_closes_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let writer = File::create(&path).unwrap();
        let other = File::options().append(true).open(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert!(is_open_for_writing(&reader).unwrap());
        drop(writer);
        assert!(is_open_for_writing(&reader).unwrap());
        drop(other);
        // A child that another test starts has the descriptors until it executes a program.
        let is_closed = || !is_open_for_writing(&reader).unwrap();
        wait_until("the file has no writer", is_closed);
        // The lease is given back: this would wait for it.
        drop(File::options().append(true).open(&path).unwrap());
        wait_until("the file has no writer again", is_closed);
    }

    /// A process that opens the file while the lease is held breaks it. The signal about that ends nothing.
    #[test]
    fn a_writer_that_comes_in_between_does_not_end_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "x").unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(File::options().append(true).open(&path).unwrap());
                }
            });
            let reader = File::open(&path).unwrap();
            let probes = (0..2000).map(|_| is_open_for_writing(&reader));
            let failed = probes.filter(Result::is_err).count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(failed, 0);
        });
    }
}
