//! A conflict, and how much it matters.

use selinux::Reach;
use serde::Serialize;

use crate::ask::{Property, Value};
use crate::keys::{PodKey, VolumeId};
use crate::meeting::{Meeting, meeting};
use crate::row::Side;

/// Two pods that cannot both have one volume on one node. How much it matters is found out when asked.
#[derive(Debug, Clone, Copy)]
pub struct Conflict<'e> {
    /// The volume.
    pub volume: &'e VolumeId,
    /// In what they differ.
    pub property: Property,
    /// The one pod.
    pub a: Party<'e>,
    /// The other.
    pub b: Party<'e>,
    pub(crate) sides: [Side<'e>; 2],
}

/// One pod of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Party<'e> {
    /// The pod.
    pub pod: &'e PodKey,
    /// What it has of the property.
    pub value: Value<'e>,
}

/// How two pods share a volume. Some ways worked before volumes were mounted with labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sharing {
    /// Both mount parts of it only: each part could have a label of its own.
    pub sub_paths: bool,
    /// One of them is privileged in all containers that mount it: those reach files of every label.
    pub privileged: bool,
    /// Both only read it.
    pub read_only: bool,
}

impl<'e> Conflict<'e> {
    /// Where the two can meet.
    #[must_use]
    pub fn meeting(&self) -> Meeting {
        let [a, b] = self.sides;
        meeting(a, b)
    }

    /// Whether a pod has to wait.
    #[must_use]
    pub fn reach(&self) -> Reach {
        let [a, b] = self.sides;
        a.manner.reach.max(b.manner.reach)
    }

    /// How they share the volume.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        let [a, b] = self.sides.map(|side| side.manner.traits);
        Sharing {
            sub_paths: a.sub_paths && b.sub_paths,
            privileged: a.privileged != b.privileged,
            read_only: a.read_only && b.read_only,
        }
    }

    /// The same, seen by the other pod.
    #[must_use]
    pub fn turned(&self) -> Self {
        let [a, b] = self.sides;
        Self { a: self.b, b: self.a, sides: [b, a], ..*self }
    }

    /// The event for the first pod. It shows of the other only what the namespace allows: nothing but that it
    /// exists if it is in another namespace.
    #[must_use]
    pub fn event(&self) -> PodEvent<'e> {
        PodEvent {
            pod: self.a.pod,
            uid: self.sides[0].row.uid(),
            reason: self.property.reason(),
            message: self.message(),
        }
    }

    fn message(&self) -> String {
        let Self { property, a, b, .. } = self;
        let own = format!("{property} {:?} conflicts with", a.value.to_string());
        let rest = "where both are on one node, only one of them can have it";
        if a.pod.namespace() == b.pod.namespace() {
            // Upstream's own tests look for this much of the sentence.
            let other = format!("pod {} that uses the same volume as this pod with {property}", b.pod.name());
            format!("{own} {other} {:?}: {rest}", b.value.to_string())
        } else {
            format!("{own} another pod that uses the same volume with another {property}: {rest}")
        }
    }
}

/// An event for a pod. Its type is `Normal`, as upstream's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodEvent<'e> {
    /// The pod.
    pub pod: &'e PodKey,
    /// Its UID, where it is known.
    pub uid: Option<&'e str>,
    /// The reason, by upstream's name.
    pub reason: &'static str,
    /// The text.
    pub message: String,
}
