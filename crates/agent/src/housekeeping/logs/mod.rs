//! Container logs in the CRI format: `TIME STREAM TAG TEXT`. A line of output is one or more lines of the
//! file.
//!
//! ```text
//! <logs>/<container>/<attempt>.log        the file that the runtime writes to
//! <logs>/<container>/<attempt>.log.<n>    rotated; a higher number is newer
//! <logs>/<container>/<attempt>.log.20261119-103000     rotated on a node of a cluster, as by a kubelet
//! <logs>/<container>/<attempt>.log.20261119-103000.gz  the same, compressed after the next rotation
//! ```
//!
//! All readers use bounded memory, whatever the size of a log.

pub(crate) mod checks;
mod compress;
mod dir;
mod files;
mod instance;
mod line;
mod links;
mod reader;
mod rotate;
pub(crate) mod rotation;
mod tail;

pub use checks::LogChecks;
pub(crate) use checks::LogWorkers;
pub use dir::disk_usage;
pub(crate) use dir::{LogDir, remove};
pub use instance::InstanceLog;
pub use line::{Line, Stream};
pub(crate) use links::{LogLink, remove_links};
pub use reader::Reader;
pub(crate) use rotate::{Rotator, Running};
pub use rotation::{LogFiles, LogRotation, LogSize, RotatedLogs};
pub use tail::tail;
