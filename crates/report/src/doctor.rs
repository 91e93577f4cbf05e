//! The report of `wardlet doctor` as text.

use doctor::{Check, Report, Severity, Verdict};

use crate::wrapped;

const INDENT: usize = 8;

/// All checks under the titles of their groups, each with cause and fix where it does not hold, and a line that counts
/// them.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut group = None;
    for check in &report.checks {
        if group.replace(check.group) != Some(check.group) {
            text.push_str(&format!("{}\n", check.group.title()));
        }
        text.push_str(&lines(check));
    }
    text + "\n" + &summary(report)
}

fn summary(report: &Report) -> String {
    let count = |word: &str| report.checks.iter().filter(|check| self::word(check) == word).count();
    let parts = [("FAILS", "failed"), ("OPEN", "not determined"), ("warn", "with warnings")];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(word, _)| count(word) > 0)
        .map(|(word, what)| format!("{} {what}", count(word)))
        .collect();
    let rest = if parts.is_empty() { "all passed".to_owned() } else { parts.join(", ") };
    format!("{} checks: {rest}\n", report.checks.len())
}

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
    use doctor::{Evidence, Group};

    use super::*;

    fn holds(group: Group, need: &str, found: &str) -> Check {
        Check {
            need: need.to_owned(),
            holds: true,
            found: found.to_owned(),
            cause: None,
            fix: None,
            group,
            verdict: Verdict::Holds,
            severity: Severity::Needed,
            evidence: Evidence::Files,
        }
    }

    #[test]
    fn people_see_what_failed_with_cause_and_fix_under_its_group() {
        let failed = Check {
            holds: false,
            cause: Some("it is so".to_owned()),
            fix: Some("sysctl -w a.b=1".to_owned()),
            verdict: Verdict::Fails,
            ..holds(Group::Kernel, "a limit", "0")
        };
        let checks = vec![failed, holds(Group::Ids, "a pool", "ten blocks")];
        assert_eq!(
            text(&Report::new(checks)),
            "host IDs\n  ok    a pool: ten blocks\nkernel\n  FAILS a limit: 0\n        cause: it is so\n        \
             fix: sysctl -w a.b=1\n\n2 checks: 1 failed\n"
        );
    }
}
