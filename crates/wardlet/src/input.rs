use std::collections::BTreeMap;

use manifest::{Finding, Reading};

use crate::failure::Failure;
use crate::words;

/// The failure to read manifests.
pub(crate) fn unreadable(error: &agent::Unreadable) -> Failure {
    Failure::unknown(error.to_string())
        .with_hint("name a manifest, a directory of manifests, or - for standard input")
}

/// Says what is wrong, each finding with its place and the way out.
pub(crate) fn say(findings: &[Finding]) {
    for finding in findings {
        let failure = Failure::unknown(finding.to_string());
        words::failure(&match finding.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        });
    }
}

/// Says which objects were not looked at, by kind: a dump of a cluster has thousands.
pub(crate) fn say_skipped(reading: &Reading) {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for skipped in &reading.skipped {
        *kinds.entry(&skipped.kind).or_default() += 1;
    }
    if !kinds.is_empty() {
        let list: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        words::note(&format!("ignored (makes no pods): {}", list.join(", ")));
    }
}
