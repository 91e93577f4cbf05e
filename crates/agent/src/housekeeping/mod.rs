//! Removal of ended pods and of orphans, rotation of logs, and the record of resources in effect.

pub(crate) mod actuated;
pub mod logs;
pub(crate) mod orphans;
pub(crate) mod stop_orphan;
pub(crate) mod take_over;
pub(crate) mod teardown;
pub(crate) mod traces;
