use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::{Error, Result};

/// Makes this process and its children undumpable: processes of the same user without CAP_SYS_PTRACE over the host can
/// neither trace them nor read them through /proc. An exec ends that.
pub fn set_undumpable() -> Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|errno| Error::Undumpable { errno })
}
