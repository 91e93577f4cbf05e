//! Attacks on the start of a container: each test is an attack that has worked, and fails now. Needs root, busybox,
//! runc and strace. docs/threat-model.md has the table.

mod descriptors;
mod devices;
mod libraries;
mod rootfs_paths;
mod starter;
mod variants;
