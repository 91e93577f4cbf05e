//! All checks together: what they come to, and how they look.

use serde::Serialize;

use super::check::{Check, Severity, Verdict};
use crate::failure::Answer;
use crate::output::wrapped;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) checks: Vec<Check>,
}

impl Report {
    /// In the order of the groups; within one, as they were made.
    pub(crate) fn new(mut checks: Vec<Check>) -> Self {
        checks.sort_by_key(|check| check.group);
        Self { checks }
    }

    /// A need that fails outweighs one that could not be told.
    pub(crate) fn answer(&self) -> Answer {
        let needed = |verdict| {
            let mut needed = self.checks.iter().filter(|check| check.severity == Severity::Needed);
            needed.any(|check| check.verdict == verdict)
        };
        if needed(Verdict::Fails) {
            Answer::DoesNotHold
        } else if needed(Verdict::Open) {
            Answer::Unknown
        } else {
            Answer::Holds
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut group = None;
        for check in &self.checks {
            if group.replace(check.group) != Some(check.group) {
                text.push_str(&format!("{}\n", check.group.title()));
            }
            text.push_str(&lines(check));
        }
        text + "\n" + &self.summary()
    }

    fn summary(&self) -> String {
        let count = |word: &str| self.checks.iter().filter(|check| self::word(check) == word).count();
        let parts = [("FAILS", "not met"), ("OPEN", "open"), ("warn", "to be looked at")];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(word, _)| count(word) > 0)
            .map(|(word, what)| format!("{} {what}", count(word)))
            .collect();
        let rest = if parts.is_empty() { "all hold".to_owned() } else { parts.join(", ") };
        format!("{} checks: {rest}\n", self.checks.len())
    }
}

const INDENT: usize = 8;

fn lines(check: &Check) -> String {
    let first = wrapped(&format!("{:INDENT$}{}: {}", "", check.need, check.found), INDENT);
    let mut text = format!("  {:5} {}", word(check), first.trim_start());
    for (title, words) in [("cause", &check.cause), ("fix", &check.fix)] {
        if let Some(words) = words {
            text.push_str(&wrapped(&format!("{:INDENT$}{title}: {words}", ""), INDENT + 2));
        }
    }
    text
}

fn word(check: &Check) -> &'static str {
    match (check.verdict, check.severity) {
        (_, Severity::Information) => "-",
        (Verdict::Holds, _) => "ok",
        (_, Severity::Useful) => "warn",
        (Verdict::Fails, Severity::Needed) => "FAILS",
        (Verdict::Open, Severity::Needed) => "OPEN",
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{Desk, Evidence, Fault, Group};
    use super::*;

    const DESK: Desk = Desk::new(Group::Kernel, Evidence::Files);

    fn fault() -> Fault {
        Fault::new("it is so", "sysctl -w a.b=1")
    }

    #[test]
    fn what_is_needed_decides_and_a_failure_outweighs_a_doubt() {
        let answer = |checks: &[&Check]| Report::new(checks.iter().map(|c| (*c).clone()).collect()).answer();
        let (good, bad, open) =
            (DESK.holds("a", "1"), DESK.fails("b", "0", fault()), DESK.open("c", fault()));
        assert_eq!(answer(&[&good]), Answer::Holds);
        assert_eq!(answer(&[&good, &open, &bad]), Answer::DoesNotHold);
        assert_eq!(answer(&[&good, &open]), Answer::Unknown);
        assert_eq!(answer(&[&good, &bad.clone().useful(), &open.clone().useful()]), Answer::Holds);
    }

    #[test]
    fn people_see_what_failed_with_cause_and_fix_under_its_group() {
        let ids = Desk::new(Group::Ids, Evidence::Files);
        let checks = vec![DESK.fails("a limit", "0", fault()), ids.holds("a pool", "ten blocks")];
        assert_eq!(
            Report::new(checks).text(),
            "host IDs\n  ok    a pool: ten blocks\nkernel\n  FAILS a limit: 0\n        cause: it is so\n        \
             fix: sysctl -w a.b=1\n\n2 checks: 1 not met\n"
        );
    }
}
