//! Whether two pods can meet on one node.

use std::fmt;

use serde::Serialize;

use crate::placement::{Namespaces, Requirement};
use crate::row::{Row, Side, Span};
use crate::steering::{HOSTNAME, PodLabels, holds};

/// Whether two pods can meet on one node: the graver, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Meeting {
    /// The two and their successors cannot, and this proves it.
    CannotMeet(Apart),
    /// They may.
    MayMeet,
    /// They may, and both can have the volume on one node only: it is `ReadWriteOnce`.
    MustMeet,
    /// They are on one node.
    OnOneNode,
}

/// What keeps two pods apart. It follows from the pods and volumes alone, whatever nodes there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Apart {
    /// The volume is `ReadWriteOncePod`: the second waits for the first, whatever their labels.
    ReadWriteOncePod,
    /// No node can have the labels that both require.
    NodeSelector,
    /// One of them requires to be away from the other.
    AntiAffinity,
}

impl Meeting {
    /// The same in a word, without what proves it.
    #[must_use]
    pub fn severity(self) -> &'static str {
        match self {
            Self::CannotMeet(_) => "cannotMeet",
            Self::MayMeet => "mayMeet",
            Self::MustMeet => "mustMeet",
            Self::OnOneNode => "onOneNode",
        }
    }
}

impl fmt::Display for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CannotMeet(Apart::ReadWriteOncePod) => {
                "cannot have the volume at a time: it is ReadWriteOncePod"
            }
            Self::CannotMeet(Apart::NodeSelector) => "cannot meet: their node selectors exclude each other",
            Self::CannotMeet(Apart::AntiAffinity) => "cannot meet: a required anti-affinity keeps them apart",
            Self::MayMeet => "may meet on one node",
            Self::MustMeet => "can both have the volume on one node only: it is ReadWriteOnce",
            Self::OnOneNode => "are on one node",
        })
    }
}

/// That a pod is on a node counts for a meeting, never against one: its successor may be put elsewhere.
pub(crate) fn meeting(a: Side<'_>, b: Side<'_>) -> Meeting {
    let both = |span: Span| a.manner.span == span && b.manner.span == span;
    let ((ours, theirs), ruled) = ((a.row, b.row), a.row.steering.ruled && b.row.steering.ruled);
    if both(Span::OnePod) {
        Meeting::CannotMeet(Apart::ReadWriteOncePod)
    } else if ours.node.is_some() && ours.node == theirs.node {
        Meeting::OnOneNode
    } else if ruled && ours.steering.excludes(&theirs.steering) {
        Meeting::CannotMeet(Apart::NodeSelector)
    } else if ruled && kept_apart(ours, theirs) {
        Meeting::CannotMeet(Apart::AntiAffinity)
    } else if a.manner.span != Span::Anywhere && b.manner.span != Span::Anywhere {
        if ours.node.is_some() && theirs.node.is_some() { Meeting::MayMeet } else { Meeting::MustMeet }
    } else {
        Meeting::MayMeet
    }
}

fn selected(requirements: &[Requirement], labels: &PodLabels) -> bool {
    let value = |key: &str| labels.iter().find(|(k, _)| **k == *key).map(|(_, v)| &**v);
    requirements.iter().all(|r| holds(&r.operator, value(&r.key)))
}

/// The labels of nodes by which the first keeps away from the second.
fn kept_away_by<'e>(a: &'e Row, b: &'e Row) -> impl Iterator<Item = &'e str> {
    let terms = a.steering.anti_affinity.iter().filter(|term| {
        let namespace = b.key.namespace();
        let there = match &term.namespaces {
            Namespaces::Own => namespace == a.key.namespace(),
            Namespaces::Listed(list) => list.contains(namespace),
            Namespaces::All => true,
        };
        there && term.selector.as_ref().is_some_and(|s| selected(s, &b.labels))
    });
    terms.map(|term| term.topology_key.as_str())
}

/// Whether the scheduler keeps each of the two from every node that has the other: it minds the
/// anti-affinity of both, on nodes that have its label.
fn kept_apart(a: &Row, b: &Row) -> bool {
    let labels: Vec<&str> = kept_away_by(a, b).chain(kept_away_by(b, a)).collect();
    !labels.is_empty() && (labels.contains(&HOSTNAME) || a.steering.meet_only_with(&b.steering, &labels))
}
