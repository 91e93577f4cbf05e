//! Differences, by class: the field and what is said of it, without numbers and names.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use manifest::{Finding, Problem};

use super::generate::Sample;
use super::peer::{Refusal, Said};

/// One class of differences.
#[derive(Debug, Default)]
struct Class {
    count: usize,
    /// The smallest object that is of it, with its number.
    smallest: Option<(usize, String)>,
}

/// What came of all objects.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) objects: usize,
    pub(super) valid: usize,
    /// Refused by the server and accepted by us.
    missing: BTreeMap<String, Class>,
    /// Accepted by the server and refused by us.
    extra: BTreeMap<String, Class>,
    /// Meant valid and refused by both: what the generator has yet to learn.
    spoiled: BTreeMap<String, Class>,
    /// As `extra`, by one of the documented classes.
    pub(super) documented: usize,
}

impl Tally {
    pub(super) fn add(&mut self, sample: &Sample, said: &Said, found: &[Finding]) {
        // An object with a version is one that a server has stored; it refuses to create it again.
        let version = sample.object.pointer("/metadata/resourceVersion");
        if version.is_some_and(|version| version.as_str() != Some("")) {
            return;
        }
        self.objects += 1;
        self.valid += usize::from(said.accepted);
        let (classes, class) = match (said.accepted, found) {
            (true, [first, ..]) => {
                if found.iter().all(is_documented) {
                    self.documented += 1;
                    return;
                }
                (&mut self.extra, format!("{}: {}", without_indices(&first.path), kind_of(&first.problem)))
            }
            (false, []) => {
                let first = said.errors.first();
                (&mut self.missing, first.map_or_else(String::new, class_of))
            }
            (false, _) if sample.is_meant_valid => {
                let first = said.errors.first();
                (&mut self.spoiled, first.map_or_else(String::new, class_of))
            }
            _ => return,
        };
        let class = classes.entry(class).or_default();
        class.count += 1;
        let text = sample.object.to_string();
        if class.smallest.as_ref().is_none_or(|(_, held)| held.len() > text.len()) {
            class.smallest = Some((sample.number, text));
        }
    }

    pub(super) fn missing(&self) -> usize {
        self.missing.values().map(|class| class.count).sum()
    }

    pub(super) fn extra(&self) -> usize {
        self.extra.values().map(|class| class.count).sum()
    }

    /// The classes of both kinds, the most frequent first, each with its smallest object.
    pub(super) fn report(&self) -> String {
        let mut text = format!(
            "{} objects, {} valid; {} accepted here and refused by the server, {} refused here and accepted by the server \
             ({} more are documented)\n",
            self.objects,
            self.valid,
            self.missing(),
            self.extra(),
            self.documented
        );
        let titles =
            [("accepted here", &self.missing), ("refused here", &self.extra), ("meant valid", &self.spoiled)];
        for (title, classes) in titles {
            let mut sorted: Vec<_> = classes.iter().collect();
            sorted.sort_by_key(|(_, class)| usize::MAX - class.count);
            for (name, class) in sorted.into_iter().take(40) {
                let (number, object) = class.smallest.clone().unwrap_or_default();
                let _ = writeln!(text, "{title}, {} times, {name}\n    {number}: {object}", class.count);
            }
        }
        text
    }
}

fn class_of(refusal: &Refusal) -> String {
    let detail: String = refusal.detail.chars().take(110).collect();
    format!("{} ({}): {detail}", without_indices(&refusal.field), refusal.kind)
}

fn without_indices(path: &str) -> String {
    let mut out = String::new();
    let mut depth = 0;
    for c in path.chars() {
        depth += usize::from(c == '[');
        if depth == 0 {
            out.push(c);
        }
        depth -= usize::from(c == ']' && depth > 0);
    }
    out
}

fn kind_of(problem: &Problem) -> String {
    match problem {
        Problem::Invalid { rule, .. } => rule.clone(),
        other => other.to_string().chars().take(80).collect(),
    }
}

/// Refusals that docs/explanation/strictness.md gives a reason for.
fn is_documented(finding: &Finding) -> bool {
    let path = without_indices(&finding.path);
    let is_missing = matches!(finding.problem, Problem::Required);
    match () {
        () if path.ends_with("spec.volumes") => is_missing,
        () if path.ends_with("projected.sources") => is_missing,
        () if path.ends_with("volumeClaimTemplates") => matches!(finding.problem, Problem::WrongType { .. }),
        () if path == "spec.flexVolume" => matches!(finding.problem, Problem::Forbidden { .. }),
        () if path.ends_with("initContainers.ports.hostPort") => {
            matches!(finding.problem, Problem::Duplicate { .. })
        }
        () if path.ends_with("fieldRef.fieldPath") => finding.to_string().contains("spec.host\""),
        () if path.ends_with("sysctls.name") => finding.to_string().contains("user namespaces"),
        () => path.ends_with("ports.hostIP") || path.ends_with("lifecycle.stopSignal"),
    }
}
