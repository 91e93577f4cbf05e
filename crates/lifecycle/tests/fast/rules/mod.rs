//! Kubernetes' rules, one by one.

mod endings;
mod probing;
mod restarts;
mod sandboxes;
mod stage;
mod starting;
mod statuses;
