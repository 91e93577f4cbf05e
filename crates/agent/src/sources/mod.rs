//! Where pods and the objects that they name come from.

pub(crate) mod desired;
pub(crate) mod files;
pub(crate) mod manifests;
pub(crate) mod objects;
pub(crate) mod open;
pub(crate) mod tracked;
pub(crate) mod watch;
