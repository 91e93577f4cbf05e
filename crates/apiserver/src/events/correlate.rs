//! Merges repeated events and limits those of one pod, as client-go does.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use agent::ports::EventType;
use lifecycle::Moment;
use tokio::time::Instant;

use crate::events::recent::Recent;
use crate::events::record::{Involved, Record};
use agent::Bucket;

/// Entries of each table.
const ENTRIES: usize = 4096;
/// Events of one pod at once, and the time after which it may have one more.
const POD_BURST: u32 = 25;
const POD_INTERVAL: Duration = Duration::from_secs(300);
/// With so many different messages of one reason within this time, further ones are combined into one event.
const SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// Before the message of combined events.
const COMBINED: &str = "(combined from similar events): ";

/// What events of one kind have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    object: Involved,
    is_warning: bool,
    reason: &'static str,
    /// `None` for combined events.
    message: Option<String>,
}

/// An event that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Correlated {
    pub(super) key: Key,
    pub(super) message: String,
    pub(super) count: u32,
    /// When the first of them happened.
    pub(super) first: Moment,
    /// The event in the API that it repeats.
    pub(super) name: Option<String>,
}

/// The events of the recent past.
#[derive(Debug)]
pub(super) struct Correlator {
    objects: Recent<Involved, Bucket>,
    similar: Recent<Key, Similar>,
    sent: Recent<Key, Sent>,
}

/// The messages of one reason.
#[derive(Debug)]
struct Similar {
    /// Hashes of the messages: one that collides is combined one event later.
    messages: HashSet<u64>,
    last: Instant,
}

/// An event that was sent.
#[derive(Debug)]
struct Sent {
    count: u32,
    first: Moment,
    name: Option<String>,
}

impl Correlator {
    pub(super) fn new() -> Self {
        Self { objects: Recent::new(ENTRIES), similar: Recent::new(ENTRIES), sent: Recent::new(ENTRIES) }
    }

    /// Takes note of an event. `None` if its pod has had too many.
    pub(super) fn observe(&mut self, event: &Record, now: Instant) -> Option<Correlated> {
        let reason = Key {
            object: event.object.clone(),
            is_warning: event.kind == EventType::Warning,
            reason: event.reason,
            message: None,
        };
        let is_combined = self.is_combined(&reason, &event.message, now);
        let (key, message) = if is_combined {
            (reason, format!("{COMBINED}{}", event.message))
        } else {
            (Key { message: Some(event.message.clone()), ..reason }, event.message.clone())
        };
        let sent = self.sent.entry(&key, || Sent { count: 0, first: event.time, name: None });
        sent.count = sent.count.saturating_add(1);
        let (count, first, name) = (sent.count, sent.first, sent.name.clone());
        // All containers of a pod share its limit.
        let whole = Involved { field_path: None, ..event.object.clone() };
        let bucket = self.objects.entry(&whole, || Bucket::new(POD_BURST, POD_INTERVAL));
        bucket.take(now).then_some(Correlated { key, message, count, first, name })
    }

    /// Remembers the name of an event that was created in the API.
    pub(super) fn created(&mut self, key: &Key, name: String) {
        if let Some(sent) = self.sent.get_mut(key) {
            sent.name = Some(name);
        }
    }

    fn is_combined(&mut self, reason: &Key, message: &str, now: Instant) -> bool {
        let similar = self.similar.entry(reason, || Similar { messages: HashSet::new(), last: now });
        if now.duration_since(similar.last) > SIMILAR_WITHIN {
            similar.messages.clear();
        }
        similar.last = now;
        let mut hasher = DefaultHasher::new();
        message.hash(&mut hasher);
        // The set never grows beyond the limit.
        if similar.messages.len() < SIMILAR {
            similar.messages.insert(hasher.finish());
        }
        similar.messages.len() >= SIMILAR
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn event(pod: &str, message: &str) -> Record {
        let object = Involved {
            kind: "Pod",
            namespace: "shop".into(),
            name: pod.into(),
            uid: format!("u-{pod}"),
            field_path: Some("spec.containers{app}".into()),
        };
        Record {
            kind: EventType::Warning,
            reason: "BackOff",
            object,
            message: message.into(),
            annotations: BTreeMap::new(),
            time: Moment::from_millis(5000),
        }
    }

    #[test]
    fn a_repeated_event_counts_on_the_first() {
        let (mut correlator, now) = (Correlator::new(), Instant::now());
        let first = correlator.observe(&event("web", "again"), now).unwrap();
        assert_eq!((first.count, first.name.as_deref()), (1, None));
        correlator.created(&first.key, "web.1".into());
        let second = correlator.observe(&event("web", "again"), now).unwrap();
        assert_eq!((second.count, second.name.as_deref()), (2, Some("web.1")));
        let other = correlator.observe(&event("web", "else"), now).unwrap();
        assert_eq!((other.count, other.name), (1, None));
    }

    #[test]
    fn many_messages_of_one_reason_become_one_event() {
        let (mut correlator, now) = (Correlator::new(), Instant::now());
        let mut observe =
            |number: u32| correlator.observe(&event("web", &format!("try {number}")), now).unwrap();
        let all: Vec<Correlated> = (0..12).map(&mut observe).collect();
        assert_eq!(all[8].message, "try 8");
        assert_eq!(all[9].message, "(combined from similar events): try 9");
        assert_eq!((all[11].count, &all[11].key), (3, &all[9].key));
    }

    #[test]
    fn a_pod_with_too_many_events_does_not_silence_others() {
        let (mut correlator, now) = (Correlator::new(), Instant::now());
        let passed = (0..100).filter(|_| correlator.observe(&event("loud", "x"), now).is_some()).count();
        assert_eq!(passed, 25);
        assert!(correlator.observe(&event("quiet", "x"), now).is_some());
        let later = correlator.observe(&event("loud", "x"), now + POD_INTERVAL).unwrap();
        assert_eq!(later.count, 101, "events that were not sent are counted");
    }
}
