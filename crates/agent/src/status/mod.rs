//! Statuses and events of pods.

pub(crate) mod events;
pub(crate) mod pending;
pub(crate) mod resources;
pub(crate) mod resources_view;
pub(crate) mod sink;
pub(crate) mod startup;
pub(crate) mod view;
