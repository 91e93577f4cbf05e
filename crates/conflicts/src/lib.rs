//! Pods whose volumes cannot have both their labels: found before they meet.
//!
//! A volume that is mounted with a SELinux label has one label on a node. Pods that share it and ask for
//! different ones, or some for one and some for none, wait for each other there.
//!
//! - [`Engine`]: what is known of a cluster. [`Pod`], [`Claim`], [`PersistentVolume`] and [`CsiDriver`]
//!   come, change and leave in any order ([`Change`]); [`Rules`] say how they are compared.
//! - [`Conflict`]: two pods, in what they differ ([`Property`]), whether they can meet ([`Meeting`]),
//!   whether a pod waits under the gates as they are ([`Reach`]), how they share the volume
//!   ([`Sharing`]), and the event of each ([`PodEvent`]). Made when asked for, one by one.
//!   [`Engine::event_for`] is one event for all conflicts of a pod on a volume.
//! - [`Effects`]: which conflicts a change caused and [`Ended`].
//! - [`Trial`]: what would be if pods were others, for the search of a way out.
//! - [`Remark`]: what is wrong with one pod alone.
//!
//! Pods of a volume are kept by what they [`Ask`] for, so that ten thousand pods with two labels are two
//! groups and not twenty-five million pairs.

mod ask;
mod changes;
mod conflict;
mod effects;
mod engine;
mod event;
mod index;
mod keys;
mod links;
mod maps;
mod meeting;
mod objects;
mod placement;
mod pools;
mod query;
mod remarks;
mod row;
mod rules;
mod steering;
mod trial;
mod volumes;
mod wishes;

pub use ask::{Ask, Property, Value};
pub use changes::Ended;
pub use conflict::{Conflict, Party, PodEvent, Sharing};
pub use effects::Effects;
pub use engine::{Change, Engine};
pub use keys::{ClaimKey, PodKey, VolumeId};
pub use links::Unresolved;
pub use meeting::{Apart, Meeting};
pub use objects::{
    Claim, ClaimReference, CsiDriver, Life, Mount, PersistentVolume, Pod, PodVolume, PodVolumeSource,
    VolumeSource,
};
pub use placement::{AntiAffinity, Namespaces, Node, NodeTerm, Operator, Placement, Requirement};
pub use query::Users;
pub use remarks::{Remark, Says};
pub use rules::{PrivilegedOptions, Rules};
pub use selinux::{MountGates as Gates, Reach};
pub use trial::Trial;
pub use types::{AccessMode, ChangePolicy};
