//! How many mounts a mount namespace has, those included that no path leads to.

use std::ffi::{c_long, c_ulong};
use std::os::fd::{AsFd, AsRawFd};

use super::Namespace;

/// `_IOR(0xb7, 5, u64)`: the number that listmount(2) knows a mount namespace by.
const NS_GET_MNTNS_ID: c_ulong = 0x8008_b705;
/// listmount(2), of the table that all architectures share.
const SYS_LISTMOUNT: c_long = 458;
/// Everything below the root of the mount namespace.
const LSMT_ROOT: u64 = u64::MAX;

/// `struct mnt_id_req` of linux/mount.h.
#[repr(C)]
struct Request {
    size: u32,
    spare: u32,
    mount: u64,
    /// The last mount that is known already.
    after: u64,
    namespace: u64,
}

impl Namespace {
    /// The number of mounts below the first root of a mount namespace other than the caller's own, with those that are mounted over
    /// that root and those below them. `None` where the kernel does not tell: before Linux 6.11, or without the right to.
    #[must_use]
    pub fn count_mounts(&self) -> Option<usize> {
        let mut namespace: u64 = 0;
        // SAFETY: the descriptor is borrowed for the whole call, which writes one number to `namespace`.
        let told = unsafe { libc::ioctl(self.as_fd().as_raw_fd(), NS_GET_MNTNS_ID, &raw mut namespace) };
        if told != 0 {
            return None;
        }
        let (mut ids, mut after, mut count) = ([0_u64; 512], 0, 0_usize);
        loop {
            let length = list(namespace, after, &mut ids)?;
            let found = ids.get(..length)?;
            count += found.len();
            match found.last() {
                Some(last) => after = *last,
                None => return Some(count),
            }
        }
    }
}

fn list(namespace: u64, after: u64, ids: &mut [u64]) -> Option<usize> {
    let size = u32::try_from(size_of::<Request>()).ok()?;
    let request = Request { size, spare: 0, mount: LSMT_ROOT, after, namespace };
    // SAFETY: `request` is valid for reading the size that it names, `ids` for writing as many numbers as `ids.len()`
    // says; both are borrowed for the whole call.
    let found = unsafe { libc::syscall(SYS_LISTMOUNT, &raw const request, ids.as_mut_ptr(), ids.len(), 0) };
    usize::try_from(found).ok()
}
