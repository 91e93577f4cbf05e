//! The answer for people.

use super::report::{PodView, Report};
use super::violation::Violation;
use crate::output::table;
use crate::words;

impl Report {
    pub(crate) fn text(&self) -> String {
        let rows: Vec<_> = self.pods.iter().map(row).collect();
        let mut text = if rows.is_empty() {
            "no pod runs on this node\n".to_owned()
        } else {
            table(["POD", "BLOCK", "PROCESSES", "MOUNTS", "VERDICT"], &rows)
        };
        text.push('\n');
        for violation in &self.violations {
            text.push_str(&line(violation));
            text.push_str(&format!("  hint: {}\n", violation.hint));
        }
        text.push_str(&self.conclusion());
        text
    }

    /// What goes to stderr.
    pub(crate) fn say(&self) {
        for note in &self.notes {
            match &note.pod {
                Some(pod) => words::note(&format!("{pod}: {}", note.text)),
                None => words::note(&note.text),
            }
        }
        for unseen in &self.unseen {
            words::warning(&format!("could not be seen: {}", unseen.text));
        }
    }

    fn conclusion(&self) -> String {
        let evidence = &self.evidence;
        let seen = format!(
            "{} processes, {} mounts and {} files looked at on {}",
            evidence.processes, evidence.mounts, evidence.files, evidence.time
        );
        if !self.violations.is_empty() {
            return format!("does not hold: violations found: {} ({seen})\n", self.violations.len());
        }
        if !self.unseen.is_empty() {
            let unseen = self.unseen.len();
            return format!(
                "unknown: nothing wrong was seen, but {unseen} things could not be seen ({seen})\n"
            );
        }
        format!("holds: every isolated pod is alone with its IDs ({seen})\n")
    }
}

fn row(pod: &PodView) -> [String; 5] {
    let block = pod.block.map_or_else(|| "-".to_owned(), |block| block.to_string());
    let mounts = pod.block.map_or_else(|| "-".to_owned(), |_| pod.mounts.to_string());
    [pod.title.clone(), block, pod.processes.to_string(), mounts, pod.verdict.words().to_owned()]
}

/// One line.
pub(super) fn line(violation: &Violation) -> String {
    let Violation { what, pod, pid, path, expected, found, .. } = violation;
    let what =
        serde_json::to_value(what).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    let mut subject = pod.iter().cloned().collect::<Vec<_>>();
    subject.extend(path.iter().cloned());
    subject.extend(pid.map(|pid| format!("process {pid}")));
    format!("violation: {what}: {}: expected {expected}; found {found}\n", subject.join(" "))
}
