//! The calls that change something, as a trait: code that executes a plan takes a [`Kernel`], and the program chooses
//! the implementation.

mod call;
mod dry;
mod live;
mod recorder;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

pub use call::Call;
pub use dry::Dry;
pub use live::Live;
pub use recorder::{Recorder, Tell};

use crate::{
    Attributes, DetachedMount, Filesystem, IdMaps, LayersGiven, MountPoints, Overlay, Result, Source,
    Submounts, Target, Unmount, UsernsFd,
};

/// The system calls that change the machine.
pub trait Kernel: Send + Sync + Debug {
    /// The user namespace with these maps; the same one each time.
    fn user_namespace(&self, maps: &IdMaps) -> Result<Arc<UsernsFd>>;

    /// Releases the user namespace with these maps.
    fn forget_user_namespace(&self, maps: &IdMaps) -> Result<()>;

    /// As [`DetachedMount::clone_of`].
    fn clone_mount(&self, source: Source<'_>, submounts: Submounts) -> Result<DetachedMount>;

    /// As [`DetachedMount::set`].
    fn set_attributes(&self, mount: &mut DetachedMount, attributes: &Attributes<'_>) -> Result<()>;

    /// As [`Filesystem::make`].
    fn make_filesystem(&self, filesystem: &Filesystem) -> Result<DetachedMount>;

    /// As [`Overlay::make`].
    fn overlay(&self, overlay: Overlay<'_>, points: MountPoints<'_>) -> Result<(DetachedMount, LayersGiven)>;

    /// As [`DetachedMount::attach`] and [`DetachedMount::attach_at`].
    fn attach(&self, mount: DetachedMount, target: Target<'_>) -> Result<()>;

    /// As [`crate::unmount`].
    fn unmount(&self, point: &Path, how: Unmount) -> Result<()>;
}
