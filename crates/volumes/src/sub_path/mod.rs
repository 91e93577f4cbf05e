//! The part of a volume that a container sees.
//!
//! - [`SubPath`]: a path that is relative and names no `..`, checked once.
//! - [`expand`]: `$(NAME)` in a `subPathExpr`.
//! - [`resolve`]: from a volume's root to the node itself, held open. Whatever is renamed, linked or
//!   mounted meanwhile, what is mounted later is that node, and it is inside the volume.

mod expand;
mod path;
mod resolve;

pub use expand::{Unexpanded, expand};
pub use path::{BadSubPath, SubPath};
pub use resolve::{Missing, resolve};
