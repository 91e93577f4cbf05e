//! User namespaces with maps and no process, for mounts and later pods.

mod cache;
mod charge;
mod child;
mod descriptor;
mod maps;
mod pin;
mod process;

pub use cache::UsernsCache;
pub use charge::Charge;
pub use descriptor::UsernsFd;
pub use maps::IdMaps;

pub(crate) use charge::{as_user, without_side_effects};
pub(crate) use child::{PausedChild, Steps, last_errno};
