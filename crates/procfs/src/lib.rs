//! The proc filesystem, read by descriptor.
//!
//! | type | what it is |
//! |---|---|
//! | [`Proc`] | a proc filesystem that is held open: lists processes, tells the boot ID |
//! | [`Task`] | the directory of a process or thread that is held open: its files, threads and namespaces |
//! | [`Stat`] | `/proc/PID/stat`: state, parent, start time |
//! | [`ProcessId`] | a process that cannot be confused with a later one of the same number |
//!
//! A process ID is used anew after its process has ended. A path such as `/proc/17/status` therefore names whichever
//! process has the number at that moment. A [`Task`] stays the one that was opened: every file in it fails with `ESRCH`
//! once that process is gone.

mod error;
mod identity;
mod proc;
mod stat;
mod task;

pub use error::{Error, Result, is_gone};
pub use identity::ProcessId;
pub use proc::{Proc, boot_id, numbers};
pub use stat::{Stat, field};
pub use task::{NamespaceLink, Task};
