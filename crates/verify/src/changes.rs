use serde::Serialize;

use crate::report::{PodView, Report};
use crate::violation::{Unseen, Violation};

/// What is different from the report before. It is part of the JSON contract: fields are added, never changed.
#[derive(Debug, Serialize)]
pub struct Changes<'a> {
    /// When the later look was taken, in UTC.
    pub time: &'a str,
    /// Whether the later report's verdict is that everything holds.
    pub holds: bool,
    /// Pods that are new.
    pub appeared: Vec<&'a PodView>,
    /// Pods with another verdict or block.
    pub changed: Vec<&'a PodView>,
    /// Pods that run no more.
    pub gone: Vec<&'a PodView>,
    /// Violations that are new.
    pub violations: Vec<&'a Violation>,
    /// Violations that are no more.
    pub ended: Vec<&'a Violation>,
    /// What could be seen before and cannot be seen now.
    pub unseen: Vec<&'a Unseen>,
}

impl<'a> Changes<'a> {
    /// The differences between a report and a later one.
    #[must_use]
    pub fn between(before: &'a Report, now: &'a Report) -> Self {
        let find = |report: &'a Report, uid: &str| report.pods.iter().find(|pod| pod.uid == uid);
        let differs = |pod: &&PodView| {
            find(before, &pod.uid).is_some_and(|old| (old.verdict, old.block) != (pod.verdict, pod.block))
        };
        let missing = |of: &'a [Violation], from: &'a [Violation]| -> Vec<&'a Violation> {
            of.iter().filter(|one| !from.iter().any(|other| one.is_again(other))).collect()
        };
        Self {
            time: &now.evidence.time,
            holds: now.holds,
            appeared: now.pods.iter().filter(|pod| find(before, &pod.uid).is_none()).collect(),
            changed: now.pods.iter().filter(differs).collect(),
            gone: before.pods.iter().filter(|pod| find(now, &pod.uid).is_none()).collect(),
            violations: missing(&now.violations, &before.violations),
            ended: missing(&before.violations, &now.violations),
            unseen: now.unseen.iter().filter(|text| !before.unseen.contains(text)).collect(),
        }
    }

    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.appeared.is_empty()
            && self.changed.is_empty()
            && self.gone.is_empty()
            && self.violations.is_empty()
            && self.ended.is_empty()
            && self.unseen.is_empty()
    }
}
