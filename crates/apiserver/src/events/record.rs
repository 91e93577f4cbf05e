//! An event on its way to the API: of a pod, or of the node.

use std::collections::BTreeMap;

use agent::ports::{Event, EventType};
use lifecycle::Moment;

/// The namespace of events of objects that have none.
const OF_CLUSTER: &str = "default";

/// An event that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: EventType,
    pub(super) reason: &'static str,
    pub(super) object: Involved,
    pub(super) message: String,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) time: Moment,
}

/// The object that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Involved {
    pub(super) kind: &'static str,
    /// Empty for a node.
    pub(super) namespace: String,
    pub(super) name: String,
    /// Empty if it is not known yet.
    pub(super) uid: String,
    pub(super) field_path: Option<String>,
}

impl Involved {
    /// The namespace of the event.
    pub(super) fn event_namespace(&self) -> &str {
        if self.namespace.is_empty() { OF_CLUSTER } else { &self.namespace }
    }
}

impl From<Event> for Record {
    fn from(event: Event) -> Self {
        let Event { kind, reason, object, message, annotations, time, .. } = event;
        let object = Involved {
            kind: "Pod",
            namespace: object.pod.namespace,
            name: object.pod.name,
            uid: object.pod.uid.as_str().to_owned(),
            field_path: object.field_path,
        };
        Self { kind, reason, object, message, annotations, time }
    }
}

/// An event of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeEvent {
    /// Whether it is a warning.
    pub(crate) kind: EventType,
    /// The reason, as the kubelet's.
    pub(crate) reason: &'static str,
    /// The node's UID; empty if it is not known yet.
    pub(crate) uid: String,
    /// A message for people.
    pub(crate) message: String,
    /// When it happened.
    pub(crate) time: Moment,
}

impl NodeEvent {
    pub(super) fn of(self, node: &str) -> Record {
        let Self { kind, reason, uid, message, time } = self;
        let (namespace, name) = (String::new(), node.to_owned());
        let object = Involved { kind: "Node", namespace, name, uid, field_path: None };
        Record { kind, reason, object, message, annotations: BTreeMap::new(), time }
    }
}
