use rustix::io::Errno;
use rustix::thread::{CapabilitySets, capabilities, set_capabilities};

use super::Owner;
use crate::{Error, Result};

/// Does `work` on this thread with files made by `owner`: on an idmapped mount nothing can be made by a user that its map
/// leaves out, such as the host's root. What this thread may do to files stays as it is.
pub fn making_files_as<T>(owner: Owner, work: impl FnOnce() -> T) -> Result<T> {
    if owner == Owner::ROOT {
        return Ok(work());
    }
    let failed = |errno| Error::FileOwner { owner, errno };
    let held = capabilities(None).map_err(failed)?;
    let _home = Home;
    set(owner);
    // Leaving root takes the capabilities over files out of force.
    let back = CapabilitySets { effective: held.effective, ..capabilities(None).map_err(failed)? };
    set_capabilities(None, back).map_err(failed)?;
    if current() != owner {
        return Err(failed(Errno::PERM));
    }
    Ok(work())
}

/// Makes files as the host's root again, whatever happens.
struct Home;

impl Drop for Home {
    fn drop(&mut self) {
        set(Owner::ROOT);
    }
}

fn set(owner: Owner) {
    // SAFETY: plain numbers, for the calling thread alone. The answer is the former ID, also on failure.
    unsafe { libc::setfsgid(owner.gid) };
    // SAFETY: as above.
    unsafe { libc::setfsuid(owner.uid) };
}

/// An ID that nothing can have changes nothing, and tells the one that is in force.
fn current() -> Owner {
    // SAFETY: plain numbers, for the calling thread alone.
    let gid = unsafe { libc::setfsgid(u32::MAX) };
    // SAFETY: as above.
    let uid = unsafe { libc::setfsuid(u32::MAX) };
    Owner { uid: uid.cast_unsigned(), gid: gid.cast_unsigned() }
}
