//! The logs that runtimes write: `TIME STREAM TAG TEXT`, a line of output in one or more lines of the file.
//!
//! ```text
//! <logs>/<container>/<attempt>.log        what the runtime writes to
//! <logs>/<container>/<attempt>.log.<n>    rotated away; a higher number is newer
//! ```
//!
//! Every reader here takes bounded memory, whatever the size of a log.

mod dir;
mod files;
mod line;
mod reader;
mod rotate;
mod rotation;
mod tail;

pub(crate) use dir::LogDir;
pub(crate) use files::remove;
pub use line::{Line, Stream};
pub use reader::Reader;
pub(crate) use rotate::{Rotator, Running};
pub use rotation::{LogFiles, LogRotation, LogSize};
pub use tail::tail;
