//! Files that are whole or absent after a crash, and locks between processes.
//!
//! | module | what is in it |
//! |---|---|
//! | [`file`](mod@file) | [`AtomicFile`]: a file that is replaced or created as a whole; reading with a limit, removing, renaming |
//! | [`dir`](mod@dir) | [`sync_dir`], [`make_dirs`]: names that survive power loss |
//! | [`record`](mod@record) | [`Record`]: a JSON file with a version number |
//! | [`reserve`](mod@reserve) | [`Reserved`]: disk space taken now for a file written later |
//! | [`ownership`](mod@ownership) | [`check_ownership`], [`make_owned_dirs`]: directories that no other user can change |
//! | [`lock`](mod@lock) | [`Lock`], [`Guard`]: flock(2) with a deadline and the name of the holder |
//!
//! A file is written in four steps: a temporary file beside it, fsync(2) of that file, rename(2), fsync(2) of the
//! directory. A process that is killed between two of them leaves the old content under the name and at most the
//! temporary file beside it, which the next write removes.

pub mod dir;
mod error;
pub mod file;
pub mod lock;
pub mod ownership;
pub mod record;
pub mod reserve;

pub use dir::{make_dirs, sync_dir, sync_parent};
pub use error::{Error, Result};
pub use file::{AtomicFile, Lifetime, read, remove, rename, write};
pub use lock::{Guard, Holder, Lock};
pub use ownership::{check_ownership, check_ownership_as_root, make_owned_dirs};
pub use record::{Record, parse_record, read_json, read_record, write_json, write_record};
pub use reserve::Reserved;
