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
    documented: BTreeMap<&'static str, usize>,
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
                let documented: Option<Vec<&'static str>> = found.iter().map(documented).collect();
                if let Some(class) = documented.as_deref().and_then(<[_]>::first) {
                    *self.documented.entry(class).or_default() += 1;
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

    /// Refused here for a documented reason.
    pub(super) fn documented(&self) -> usize {
        self.documented.values().sum()
    }

    /// All counts, in a sentence.
    pub(super) fn counts(&self) -> String {
        format!(
            "{} objects, {} valid; {} accepted here and refused by the server, {} refused here and accepted by the server \
             ({} more are documented)",
            self.objects,
            self.valid,
            self.missing(),
            self.extra(),
            self.documented()
        )
    }

    /// The classes of both kinds, the most frequent first, each with its smallest object.
    pub(super) fn report(&self) -> String {
        let mut text = format!("{}\n", self.counts());
        for (title, classes) in [("accepted here", &self.missing), ("refused here", &self.extra)] {
            let mut areas: BTreeMap<String, usize> = BTreeMap::new();
            for (name, class) in classes {
                *areas.entry(area(name)).or_default() += class.count;
            }
            let mut sorted: Vec<_> = areas.into_iter().collect();
            sorted.sort_by_key(|(_, count)| usize::MAX - count);
            for (name, count) in sorted {
                let _ = writeln!(text, "{title}: {count} {name}");
            }
        }
        for (class, count) in &self.documented {
            let _ = writeln!(text, "documented: {count} {class}");
        }
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

/// The field of a class, as far as it tells classes of rules apart: two names below the spec of the pod or of its workload.
fn area(class: &str) -> String {
    let path = class.split([' ', ':']).next().unwrap_or_default();
    let below = path.rsplit_once("emplate.").map_or(path, |(_, below)| below);
    let names: Vec<&str> = below.split('.').filter(|name| *name != "spec").collect();
    let is_list = names.first().is_some_and(|name| name.to_lowercase().ends_with("containers"));
    let names = names.iter().take(if is_list { 2 } else { 1 }).copied().collect::<Vec<_>>().join(".");
    names.replace("initContainers", "containers").replace("ephemeralContainers.", "containers.")
}

/// The class of docs/explanation/strictness.md that gives a reason for a refusal.
fn documented(finding: &Finding) -> Option<&'static str> {
    let path = without_indices(&finding.path);
    let is_missing = matches!(finding.problem, Problem::Required);
    let ends = |end: &str| path.ends_with(end);
    let classes = [
        ("a volume without a source", ends("spec.volumes") && is_missing),
        ("an empty projected source", ends("projected.sources") && is_missing),
        (
            "a claim template of another kind",
            ends("volumeClaimTemplates") && matches!(finding.problem, Problem::WrongType { .. }),
        ),
        (
            "flexVolume and another source",
            path == "spec.flexVolume" && matches!(finding.problem, Problem::Forbidden { .. }),
        ),
        (
            "a sidecar's hostPort twice",
            ends("initContainers.ports.hostPort") && matches!(finding.problem, Problem::Duplicate { .. }),
        ),
        ("fieldPath: spec.host", ends("fieldRef.fieldPath") && finding.to_string().contains("spec.host\"")),
        ("user. sysctls", ends("sysctls.name") && finding.to_string().contains("user namespaces")),
        ("a hostIP that is no address", ends("ports.hostIP")),
        ("a quantity that is null", finding.to_string().contains("expected Quantity, found unit value")),
        ("a divisor in another spelling", ends("resourceFieldRef.divisor")),
        ("an empty localhostProfile", ends("seccompProfile.localhostProfile") && is_missing),
        ("a stopSignal that is no signal", ends("lifecycle.stopSignal")),
        ("an emptyDir's mode beyond 01777", ends("emptyDir.mode")),
    ];
    classes.into_iter().find(|(_, is_it)| *is_it).map(|(class, _)| class)
}
