//! Removal of ended pods, and rotation of logs.

pub mod logs;
pub(crate) mod teardown;
