//! One event for all conflicts of a pod on a volume.

use crate::ask::{Ask, Property, Value};
use crate::conflict::PodEvent;
use crate::engine::Engine;
use crate::keys::{PodKey, VolumeId};

/// An event names so many pods; of the others it says how many they are.
const NAMED: usize = 5;

/// The pods that a pod conflicts with in one property of one volume, as far as its namespace allows.
struct Others<'e> {
    /// Those of its own namespace, in the order of their names.
    near: Vec<(&'e str, &'e Ask)>,
    /// Whether there are any of other namespaces. Not even their number is shown.
    is_far: bool,
}

impl Engine {
    /// The event for a pod about all its conflicts in one property of a volume; `None` if it has none there. Of other
    /// pods it names at most five, all of the pod's own namespace. Of other namespaces it shows only that there is
    /// such a pod.
    #[must_use]
    pub fn event_for(&self, pod: &PodKey, volume: &VolumeId, property: Property) -> Option<PodEvent<'_>> {
        let row = self.row(pod)?;
        let volume = self.volumes.find(volume)?;
        let own = &row.entry_on(volume.index)?.ask;
        let mut others = Others { near: Vec::new(), is_far: false };
        for group in volume.groups.iter().filter(|group| own.conflicts(&group.ask, property)) {
            for other in group.pods.iter().filter_map(|&index| self.rows.get(index)) {
                if other.key.namespace() == row.key.namespace() {
                    others.near.push((other.key.name(), &group.ask));
                } else {
                    others.is_far = true;
                }
            }
        }
        others.near.sort_unstable_by(|a, b| a.0.cmp(b.0));
        let message = others.message(property, own.value(property))?;
        Some(PodEvent { pod: &row.key, uid: row.uid(), reason: property.reason(), message })
    }
}

impl Others<'_> {
    /// With one other pod it is the message of [`Conflict::event`](crate::Conflict::event).
    fn message(&self, property: Property, own: Value<'_>) -> Option<String> {
        let begin = format!("{property} {:?} conflicts with", own.to_string());
        let both = "where both are on one node, only one of them can have it";
        let Some((first, rest)) = self.near.split_first() else {
            let other = format!("another pod that uses the same volume with another {property}");
            return self.is_far.then(|| format!("{begin} {other}: {both}"));
        };
        // Upstream's own tests look for this much of the sentence.
        let (name, value) = (first.0, first.1.value(property).to_string());
        let mut text =
            format!("{begin} pod {name} that uses the same volume as this pod with {property} {value:?}");
        if rest.is_empty() && !self.is_far {
            return Some(format!("{text}: {both}"));
        }
        if !rest.is_empty() {
            text.push_str(&further(rest));
        }
        if self.is_far {
            text.push_str(", and with pods of other namespaces");
        }
        Some(format!("{text}: where two of them are on one node, only one of them can have it"))
    }
}

/// `, and with pods b, c and 12 more of this namespace`.
fn further(rest: &[(&str, &Ask)]) -> String {
    let names: Vec<&str> = rest.iter().take(NAMED - 1).map(|(name, _)| *name).collect();
    let noun = if rest.len() == 1 { "pod" } else { "pods" };
    let more = match rest.len().saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(", and with {noun} {}{more} of this namespace", names.join(", "))
}
