use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::{Error, Result};

/// Keeps this process and its children from being traced, or looked into by way of /proc, by processes of the same user
/// without CAP_SYS_PTRACE over the host. Executing a program ends that.
pub fn set_undumpable() -> Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|errno| Error::Undumpable { errno })
}
