//! Who gets a user namespace: the operator's gate, the pod's annotations, and what cannot be had with one.

mod annotations;
mod capabilities;
mod devices;
mod pod;
mod rules;
mod spaces;

use annotations::shortened;
pub use annotations::{ACCEPT_NETWORK, Asked, AskedLength, asked, asking_keys};
pub use pod::{Contradiction, Pod, Role};
pub use rules::{Subject, check};
pub use types::Refusal;
