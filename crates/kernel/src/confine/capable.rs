//! Capabilities of the calling process.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
};

use super::Capabilities;

/// More than Linux has.
const CAPABILITIES: u32 = 63;

/// Drops all others from the bounding set.
pub(super) fn bound(kept: u64) -> Result<(), Errno> {
    for number in 0..CAPABILITIES {
        let one = 1u64 << number;
        if kept & one != 0 {
            continue;
        }
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(one)) {
            // No capability has this number.
            Err(Errno::INVAL) => return Ok(()),
            answer => answer?,
        }
    }
    Ok(())
}

/// Raises the effective set to the permitted one, which was kept over the change of user.
pub(super) fn all_in_force() -> Result<(), Errno> {
    let held = capabilities(None)?;
    set_capabilities(None, CapabilitySets { effective: held.permitted, ..held })
}

/// Keeps those that the program will have, and what it takes to set a filter, all effective.
pub(super) fn keep_for_filter(sets: Capabilities) -> Result<(), Errno> {
    let wanted = sets.permitted | sets.effective | sets.inheritable | sets.ambient;
    let held = capabilities(None)?;
    let kept = held.permitted & (CapabilitySet::from_bits_retain(wanted) | CapabilitySet::SYS_ADMIN);
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, ..held })
}

/// Leaves exactly these. All of them must be permitted.
pub(super) fn set(sets: Capabilities) -> Result<(), Errno> {
    let set = CapabilitySet::from_bits_retain;
    // What is ambient must be permitted and inheritable, so that both come first.
    set_capabilities(
        None,
        CapabilitySets {
            effective: set(sets.effective),
            permitted: set(sets.permitted),
            inheritable: set(sets.inheritable),
        },
    )?;
    clear_ambient_capability_set()?;
    for number in (0..CAPABILITIES).filter(|number| sets.ambient & (1u64 << number) != 0) {
        configure_capability_in_ambient_set(set(1u64 << number), true)?;
    }
    Ok(())
}
