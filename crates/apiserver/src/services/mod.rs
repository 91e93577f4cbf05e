//! Services, as the environment variables by which containers find them.

mod variables;
mod watch;

pub(crate) use watch::Services;
