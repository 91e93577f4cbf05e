//! What a user namespace costs a process that has much memory: `userns_cost MIB PAIRS`. Prints a line of
//! two numbers for each pair: nanoseconds of ours, nanoseconds of a child that is a copy of the process.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Instant;

use ids::IdMapping;
use kernel::{Charge, IdMaps, UsernsFd};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let (Some(Ok(mebibytes)), Some(Ok(pairs))) = (arguments.next(), arguments.next()) else {
        return Err("usage: userns_cost MIB PAIRS".into());
    };
    // Written to, so that it is really there.
    let ballast = vec![1u8; mebibytes << 20];
    let line = IdMapping::new(0, 65_536, 65_536)?;
    let maps = IdMaps::new(&[line], &[line]);
    let mut output = io::stdout().lock();
    for pair in 0..pairs {
        let ours = || UsernsFd::charged(&maps, Charge::Caller).map(drop).map_err(io::Error::other);
        let copied = || by_copy("0 65536 65536\n").map(drop);
        // Each goes first as often as the other.
        let (ours, copied) = if pair % 2 == 0 {
            let ours = timed(ours)?;
            (ours, timed(copied)?)
        } else {
            let copied = timed(copied)?;
            (timed(ours)?, copied)
        };
        writeln!(output, "{ours} {copied}")?;
    }
    std::hint::black_box(&ballast);
    Ok(())
}

fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<u128> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_nanos())
}

/// As fork does it: the child gets a copy of all page tables.
fn by_copy(map: &str) -> io::Result<OwnedFd> {
    let mut pidfd: libc::c_int = -1;
    let flags = libc::CLONE_NEWUSER | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: without a stack of its own the child goes on on a copy of ours; the kernel writes the
    // descriptor to `pidfd`, which lives across the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0usize, &raw mut pidfd, 0usize, 0usize) };
    if pid == 0 {
        loop {
            // SAFETY: waits for the signal that ends this copy; touches no memory.
            unsafe { libc::pause() };
        }
    }
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: clone succeeded, so the kernel has stored a descriptor that nobody else owns.
    let _pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let made = write_maps(pid, map);
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: the child has not been waited for, so the number is still its own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    made
}

fn write_maps(pid: libc::c_long, map: &str) -> io::Result<OwnedFd> {
    std::fs::write(format!("/proc/{pid}/uid_map"), map)?;
    std::fs::write(format!("/proc/{pid}/gid_map"), map)?;
    File::open(format!("/proc/{pid}/ns/user")).map(OwnedFd::from)
}
