//! Attacks on a node, its pods and its users through this program: each once worked, and must fail. Needs root.
//! docs/threat-model.md has the table.

mod borrowed_uid;
mod covered_namespace;
mod descriptor_flood;
mod foreign_directory;
mod host_setuid;
pub(crate) mod left_pod;
mod log_size;
mod silent_filesystem;
mod swept_lease;
mod terminal;
mod verify_tasks;
mod verify_unseen;
