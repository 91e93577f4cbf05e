//! A container's log, in the format that CRI prescribes.

mod file;
mod line;

pub(crate) use file::Log;
pub(crate) use line::{Lines, Stream};
