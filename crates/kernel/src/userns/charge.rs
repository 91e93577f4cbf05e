use std::sync::{Mutex, PoisonError};
use std::thread;

use ids::HostId;
use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
use rustix::thread::{capabilities, set_capabilities, set_thread_res_uid};

use crate::{Error, Result};

/// Which user a new user namespace is counted against: there is a limit for each user, and if root's were reached no
/// further pod could start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// The user that is root inside. That user owns the namespace, too.
    Pod,
    /// The caller.
    Caller,
}

/// Runs `work` as another user with all our capabilities, on a thread that ends with it. No other thread
/// of this process is ever that user.
pub(crate) fn as_user<T: Send>(user: HostId, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let on_the_thread = || {
        let failed = |errno| Error::Charge { uid: user.get(), errno };
        let ours = capabilities(None).map_err(failed)?;
        // Only the effective ID: the saved one stays ours, so the permitted capabilities do, too.
        let uid = rustix::process::Uid::from_raw(user.get());
        set_thread_res_uid(None, uid, None).map_err(failed)?;
        set_capabilities(None, ours).map_err(failed)?;
        // With `fs.suid_dumpable` at 1 the kernel has just allowed that user to look into our memory.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed)?;
        work()
    };
    without_side_effects(|| {
        thread::scope(|scope| {
            let thread = thread::Builder::new()
                .spawn_scoped(scope, on_the_thread)
                .map_err(|error| Error::Thread { cause: error.to_string() })?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// For a thread or a child on our memory that changes its user: no process with power over that user may trace this
/// process meanwhile (`PR_SET_DUMPABLE`). The kernel clears the flag in most cases and not in all, and never restores
/// it. One at a time: a second one would find, and later restore, what the first one has changed.
pub(crate) fn without_side_effects<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = dumpable_behavior();
    // It cannot fail for this value.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let outcome = work();
    if let Ok(DumpableBehavior::Dumpable) = before {
        // It cannot fail for a value that was there before.
        let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    }
    outcome
}
