//! The report of `wardlet verify` as text.

use verify::{Changes, PodView, Report, Violation};

use crate::table;

/// A table of pods, the violations, and the conclusion.
#[must_use]
pub fn text(report: &Report) -> String {
    let rows: Vec<_> = report.pods.iter().map(row).collect();
    let mut text = if rows.is_empty() {
        "no pod runs on this node\n".to_owned()
    } else {
        table(["POD", "BLOCK", "PROCESSES", "MOUNTS", "VERDICT"], &rows)
    };
    text.push('\n');
    for violation in &report.violations {
        text.push_str(&line(violation));
        text.push_str(&format!("  hint: {}\n", violation.hint));
    }
    text.push_str(&conclusion(report));
    text
}

/// A line for each change, with the time of the look that showed it.
#[must_use]
pub fn changes_text(changes: &Changes<'_>) -> String {
    let pod =
        |word: &str, pod: &PodView| format!("{word}: {} {} {}\n", pod.title, block(pod), pod.verdict.words());
    let mut lines: Vec<String> = Vec::new();
    lines.extend(changes.appeared.iter().map(|one| pod("appeared", one)));
    lines.extend(changes.changed.iter().map(|one| pod("changed", one)));
    lines.extend(changes.gone.iter().map(|one| pod("gone", one)));
    lines.extend(changes.violations.iter().map(|one| format!("{}  hint: {}\n", line(one), one.hint)));
    lines.extend(changes.ended.iter().map(|one| format!("ended {}", line(one))));
    lines.extend(changes.unseen.iter().map(|one| format!("could not be seen: {}\n", one.text)));
    lines.iter().map(|line| format!("{} {line}", changes.time)).collect()
}

fn conclusion(report: &Report) -> String {
    let evidence = &report.evidence;
    let seen = format!(
        "{} processes, {} mounts and {} files looked at on {}",
        evidence.processes, evidence.mounts, evidence.files, evidence.time
    );
    if !report.violations.is_empty() {
        return format!("FAILED: violations found: {} ({seen})\n", report.violations.len());
    }
    if !report.unseen.is_empty() {
        let unseen = report.unseen.len();
        return format!("unknown: nothing wrong was seen, but {unseen} things could not be seen ({seen})\n");
    }
    format!("OK: no isolated pod shares a host ID ({seen})\n")
}

fn row(pod: &PodView) -> [String; 5] {
    let mounts = pod.block.map_or_else(|| "-".to_owned(), |_| pod.mounts.to_string());
    [pod.title.clone(), block(pod), pod.processes.to_string(), mounts, pod.verdict.words().to_owned()]
}

fn block(pod: &PodView) -> String {
    pod.block.map_or_else(|| "-".to_owned(), |block| block.to_string())
}

/// One line, with the violation's name as JSON has it.
fn line(violation: &Violation) -> String {
    let Violation { what, pod, pid, path, expected, found, .. } = violation;
    let what =
        serde_json::to_value(what).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    let mut subject = pod.iter().cloned().collect::<Vec<_>>();
    subject.extend(path.iter().cloned());
    subject.extend(pid.map(|pid| format!("process {pid}")));
    format!("violation: {what}: {}: expected {expected}; found {found}\n", subject.join(" "))
}
