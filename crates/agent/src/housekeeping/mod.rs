//! Removal of ended pods and of orphans, and rotation of logs.

pub mod logs;
pub(crate) mod orphans;
pub(crate) mod stop_orphan;
pub(crate) mod take_over;
pub(crate) mod teardown;
pub(crate) mod traces;
