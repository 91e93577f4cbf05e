//! Paths that cannot escape: everything is opened relative to a directory that is held open.

mod as_owner;
mod dir;
mod make;
mod node;
mod relabel;
mod remove;
mod resolve;
mod stat;

pub use as_owner::making_files_as;
pub use dir::{Dir, Entry};
pub use make::DirMode;
pub use node::Node;
pub use relabel::{Relabelled, relabel};
pub use remove::Removed;
pub use resolve::{LastLink, Within};
pub use stat::{Kind, Owner, Stat};
