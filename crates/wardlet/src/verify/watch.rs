//! Looking again and again, and showing only what changed.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::report::{PodView, Report};
use super::text::line;
use super::violation::{Unseen, Violation};
use crate::failure::{Answer, Failure};
use crate::output::{self, Format};
use crate::time;

/// How late an interruption is noticed.
const GLANCE: Duration = Duration::from_millis(100);

/// What is different from the look before.
#[derive(Debug, Serialize)]
struct Changes<'a> {
    time: &'a str,
    holds: bool,
    appeared: Vec<&'a PodView>,
    changed: Vec<&'a PodView>,
    gone: Vec<&'a PodView>,
    violations: Vec<&'a Violation>,
    ended: Vec<&'a Violation>,
    unseen: Vec<&'a Unseen>,
}

/// Shows the first answer in full and then changes, until interrupted. What the last look came to is the answer.
pub(crate) fn watch(
    format: Format,
    every: Duration,
    look: impl Fn() -> Result<Report, Failure>,
) -> Result<Answer, Failure> {
    kernel::interrupt::catch().map_err(|e| Failure::unknown(e.to_string()))?;
    let mut before = look()?;
    show(format, &before, || before.text())?;
    before.say();
    while waited(every) {
        let now = look()?;
        let changes = Changes::between(&before, &now);
        if !changes.is_nothing() {
            show(format, &changes, || changes.text())?;
        }
        before = now;
    }
    Ok(before.answer())
}

/// `false` once somebody wants an end.
fn waited(every: Duration) -> bool {
    let began = Instant::now();
    while began.elapsed() < every && !kernel::interrupt::asked() {
        sleep(GLANCE.min(every.saturating_sub(began.elapsed())));
    }
    !kernel::interrupt::asked()
}

/// One document a line, so that a reader knows where each ends.
fn show(format: Format, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
    match format {
        Format::Json => {
            let line = serde_json::to_string(value).map_err(|e| Failure::unknown(e.to_string()))?;
            output::write(&format!("{line}\n"))
        }
        Format::Yaml => {
            output::write("---\n")?;
            format.print(value, text)
        }
        other => other.print(value, text),
    }
}

impl<'a> Changes<'a> {
    fn between(before: &'a Report, now: &'a Report) -> Self {
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

    fn is_nothing(&self) -> bool {
        self.appeared.is_empty()
            && self.changed.is_empty()
            && self.gone.is_empty()
            && self.violations.is_empty()
            && self.ended.is_empty()
            && self.unseen.is_empty()
    }

    fn text(&self) -> String {
        let pod = |word: &str, pod: &PodView| {
            let block = pod.block.map_or_else(|| "-".to_owned(), |block| block.to_string());
            format!("{word}: {} {block} {}\n", pod.title, pod.verdict.words())
        };
        let mut lines: Vec<String> = Vec::new();
        lines.extend(self.appeared.iter().map(|one| pod("appeared", one)));
        lines.extend(self.changed.iter().map(|one| pod("changed", one)));
        lines.extend(self.gone.iter().map(|one| pod("gone", one)));
        lines.extend(self.violations.iter().map(|one| format!("{}  hint: {}\n", line(one), one.hint)));
        lines.extend(self.ended.iter().map(|one| format!("ended {}", line(one))));
        lines.extend(self.unseen.iter().map(|one| format!("could not be seen: {}\n", one.text)));
        let stamp = time::stamp(time::now());
        lines.iter().map(|line| format!("{stamp} {line}")).collect()
    }
}
