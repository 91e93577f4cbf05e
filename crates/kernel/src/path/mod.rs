//! Paths that cannot lead astray: everything is opened relative to a directory that is held open.

mod dir;
mod make;
mod node;
mod relabel;
mod remove;
mod resolve;
mod stat;

pub use dir::{Dir, Entry};
pub use make::DirMode;
pub use node::Node;
pub use relabel::{Relabelled, relabel};
pub use remove::Removed;
pub use resolve::{LastLink, Within};
pub use stat::{Kind, Owner, Stat};
