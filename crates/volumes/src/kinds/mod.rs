//! The kinds of volumes that need no API server and no driver.

mod empty_dir;
mod host_path;
mod host_path_type;
mod image;
mod written;

pub use empty_dir::{BadMedium, EmptyDir, Medium};
pub use host_path::HostPath;
pub(crate) use host_path::{Creating, DIRECTORY_MODE};
pub use host_path_type::{HostPathType, UnknownType};
pub use image::ImageTree;
pub use written::{Written, WrittenKind};
