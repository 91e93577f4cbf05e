//! What `wardlet controller` says of a cluster in numbers, and what a gate makes of it.

use std::collections::BTreeMap;

use serde::Serialize;
use types::time;

/// The namespace of the controller where no other is named.
pub const NAMESPACE: &str = "wardlet-system";
/// The name of its ConfigMap and of its Lease.
pub const NAME: &str = "wardlet-controller";

/// A status that was not renewed in so many of its periods is stale: no controller leads.
const PERIODS: u64 = 3;

/// The status of a cluster, as the controller keeps it in a ConfigMap. It has numbers and kinds, and no names: each user of
/// the namespace may see it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// When it was written: `2026-03-01T12:30:05Z`.
    pub renewed: String,
    /// It is written at least once in so many seconds.
    pub renew_seconds: u64,
    /// The resources that the controller cannot read, or has not read yet. What depends on them is not counted.
    pub unread: Vec<String>,
    /// Pairs of pods that conflict on a volume, once for each property they differ in.
    pub conflicts: u64,
    /// Those of them that differ in the label.
    pub label_conflicts: u64,
    /// Those of them that differ in the policy.
    pub policy_conflicts: u64,
    /// Volumes with conflicts.
    pub volumes: u64,
    /// Those of them with two conflicting pods that can meet on one node.
    pub meeting_volumes: u64,
    /// Pods with conflicts.
    pub pods: u64,
    /// Pods that need one volume with several labels: they do not start.
    pub multiple_labels: u64,
    /// All pods that have not finished.
    pub observed_pods: u64,
    /// Those of them in a user namespace of their own.
    pub isolated_pods: u64,
    /// All nodes.
    pub observed_nodes: u64,
    /// Those of them whose runtime supports user namespaces.
    pub able_nodes: u64,
}

/// What a gate makes of a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControllerGate {
    /// Nothing breaks.
    Passes,
    /// Pods wait for each other, or do not start, once volumes are mounted with labels.
    Breaks,
    /// It is not known; the text says why.
    Unknown(String),
}

/// A field of the status that is a number.
type Number = fn(&mut ControllerStatus) -> &mut u64;

/// The numbers of a status by their keys in the ConfigMap.
const NUMBERS: [(&str, Number); 12] = [
    ("renewSeconds", |status| &mut status.renew_seconds),
    ("conflicts", |status| &mut status.conflicts),
    ("labelConflicts", |status| &mut status.label_conflicts),
    ("policyConflicts", |status| &mut status.policy_conflicts),
    ("volumes", |status| &mut status.volumes),
    ("meetingVolumes", |status| &mut status.meeting_volumes),
    ("pods", |status| &mut status.pods),
    ("multipleLabels", |status| &mut status.multiple_labels),
    ("observedPods", |status| &mut status.observed_pods),
    ("isolatedPods", |status| &mut status.isolated_pods),
    ("observedNodes", |status| &mut status.observed_nodes),
    ("ableNodes", |status| &mut status.able_nodes),
];
const RENEWED: &str = "renewed";
const UNREAD: &str = "unread";

impl ControllerStatus {
    /// The `data` of the ConfigMap.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, String> {
        let mut copy = self.clone();
        let numbers = NUMBERS.map(|(key, field)| (key.to_owned(), field(&mut copy).to_string()));
        let texts = [(RENEWED, self.renewed.clone()), (UNREAD, self.unread.join(","))];
        numbers.into_iter().chain(texts.map(|(key, text)| (key.to_owned(), text))).collect()
    }

    /// A status from the `data` of the ConfigMap. Keys that are not known are ignored.
    ///
    /// # Errors
    /// If a key is missing or has no number: which one.
    pub fn from_data(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let text = |key: &str| data.get(key).ok_or_else(|| format!("it has no key {key}"));
        let mut status = Self { renewed: text(RENEWED)?.clone(), ..Self::default() };
        let unread = text(UNREAD)?.split(',').filter(|kind| !kind.is_empty());
        status.unread = unread.map(str::to_owned).collect();
        for (key, field) in NUMBERS {
            let written = text(key)?;
            *field(&mut status) = written.parse().map_err(|_| format!("{key} is no number: {written:?}"))?;
        }
        Ok(status)
    }

    /// What a gate makes of it at this time, in seconds since 1970.
    #[must_use]
    pub fn gate(&self, now: u64) -> ControllerGate {
        let Some(renewed) = time::seconds(&self.renewed) else {
            return ControllerGate::Unknown(format!("the time of the status is none: {:?}", self.renewed));
        };
        let age = now.saturating_sub(renewed);
        if age > self.renew_seconds.saturating_mul(PERIODS) {
            return ControllerGate::Unknown(format!(
                "the status is {age} s old and is renewed every {} s: no controller leads",
                self.renew_seconds
            ));
        }
        if self.meeting_volumes > 0 || self.multiple_labels > 0 {
            return ControllerGate::Breaks;
        }
        match self.unread.as_slice() {
            [] => ControllerGate::Passes,
            unread => ControllerGate::Unknown(format!("the controller has not read {}", unread.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> ControllerStatus {
        ControllerStatus {
            renewed: "2026-03-01T12:30:05Z".to_owned(),
            renew_seconds: 60,
            observed_pods: 7,
            ..ControllerStatus::default()
        }
    }

    const NOW: u64 = 1_772_368_205;

    #[test]
    fn a_status_reads_as_it_was_written() {
        let mut whole = status();
        for (number, (_, field)) in (1..).zip(NUMBERS) {
            *field(&mut whole) = number;
        }
        whole.unread = vec!["csidrivers".to_owned(), "nodes".to_owned()];
        let data = whole.data();
        assert_eq!(ControllerStatus::from_data(&data), Ok(whole.clone()));
        let json = serde_json::to_value(&whole).unwrap();
        assert!(json.as_object().unwrap().keys().all(|key| data.contains_key(key)), "{data:?}");
        let mut wrong = data.clone();
        wrong.insert("conflicts".to_owned(), "-1".to_owned());
        assert_eq!(ControllerStatus::from_data(&wrong), Err("conflicts is no number: \"-1\"".to_owned()));
        wrong.remove("conflicts");
        assert_eq!(ControllerStatus::from_data(&wrong), Err("it has no key conflicts".to_owned()));
    }

    #[test]
    fn a_gate_passes_only_on_a_whole_and_new_status_without_breaks() {
        let passes = |status: &ControllerStatus, now| status.gate(now) == ControllerGate::Passes;
        assert!(passes(&status(), NOW) && passes(&status(), NOW + 180) && passes(&status(), NOW - 5));
        let stale = status().gate(NOW + 181);
        assert!(matches!(&stale, ControllerGate::Unknown(why) if why.contains("181 s old")), "{stale:?}");
        let unread = ControllerStatus { unread: vec!["csidrivers".to_owned()], ..status() };
        assert!(matches!(unread.gate(NOW), ControllerGate::Unknown(why) if why.contains("csidrivers")));
        let apart = ControllerStatus { conflicts: 3, volumes: 1, ..status() };
        assert!(passes(&apart, NOW), "pods that cannot meet break nothing");
        let meeting = ControllerStatus { meeting_volumes: 1, ..apart };
        assert_eq!(meeting.gate(NOW), ControllerGate::Breaks);
        let several = ControllerStatus { multiple_labels: 1, ..unread };
        assert_eq!(several.gate(NOW), ControllerGate::Breaks, "what breaks is said also if not all was read");
        let timeless = ControllerStatus { renewed: "soon".to_owned(), ..status() };
        assert!(matches!(timeless.gate(NOW), ControllerGate::Unknown(_)));
    }
}
