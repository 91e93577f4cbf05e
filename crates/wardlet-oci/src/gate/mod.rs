//! Decides which pods get a user namespace: by their annotations, and by what is not possible with one.

mod annotations;
mod capabilities;
mod devices;
mod pod;
mod rules;
mod spaces;

use annotations::shortened;
pub use annotations::{ACCEPT_NETWORK, Asked, AskedLength, asked};
pub use pod::{Contradiction, Role, pod_of};
pub use rules::{Subject, check};
pub use types::Refusal;
