//! SPEC.md against what ran: each test that a promise names must have passed in this run.

use std::path::Path;

use crate::build::Binary;
use crate::suite::{Outcome, Suite};

/// One sentence for each named test that did not run, or did not pass.
pub(crate) fn broken(root: &Path, results: &[(&Binary, Suite)]) -> Result<Vec<String>, String> {
    let file = root.join("SPEC.md");
    let spec = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let ran = results.iter().flat_map(|(binary, suite)| {
        suite.tests.iter().map(|test| (binary.package.as_str(), test.name.as_str(), test.outcome))
    });
    Ok(compare(&spec, &ran.collect::<Vec<_>>()))
}

fn compare(spec: &str, ran: &[(&str, &str, Outcome)]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut promise = "";
    let mut named = 0;
    for line in spec.lines() {
        if let Some((number, _)) = line.split_once(". **").filter(|(n, _)| n.parse::<u32>().is_ok()) {
            promise = number;
        }
        let Some((package, test)) = line.strip_prefix("   ").and_then(named_test) else { continue };
        named += 1;
        let is_named = |path: &str| path.rsplit("::").next() == Some(test);
        let mut outcomes = ran.iter().filter(|(p, path, _)| *p == package && is_named(path)).peekable();
        if outcomes.peek().is_none() {
            broken.push(format!("promise {promise}: the test {test} of {package} did not run"));
        } else if outcomes.any(|(_, _, outcome)| *outcome != Outcome::Passed) {
            broken.push(format!("promise {promise}: the test {test} of {package} did not pass"));
        }
    }
    if named == 0 {
        broken.push("SPEC.md names no test".to_owned());
    }
    broken
}

/// `- package: test_function`
fn named_test(line: &str) -> Option<(&str, &str)> {
    let (package, test) = line.trim_start().strip_prefix("- ")?.split_once(": ")?;
    let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    (is_word(package) && is_word(test)).then_some((package, test))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "1. **All hold.** Always.\n   - ids: blocks_hold\n   - wardlet: it_runs\n";

    #[test]
    fn a_named_test_that_ran_and_passed_holds_its_promise() {
        let ran = [("ids", "block::blocks_hold", Outcome::Passed), ("wardlet", "it_runs", Outcome::Passed)];
        assert_eq!(compare(SPEC, &ran), Vec::<String>::new());
    }

    #[test]
    fn a_named_test_that_did_not_run_or_failed_breaks_its_promise() {
        let ran = [("ids", "block::blocks_hold", Outcome::Failed), ("ids", "it_runs", Outcome::Passed)];
        let expected = [
            "promise 1: the test blocks_hold of ids did not pass",
            "promise 1: the test it_runs of wardlet did not run",
        ];
        assert_eq!(compare(SPEC, &ran), expected);
        let ignored = [("ids", "blocks_hold", Outcome::Ignored), ("wardlet", "it_runs", Outcome::Passed)];
        assert_eq!(compare(SPEC, &ignored).len(), 1);
    }

    #[test]
    fn a_spec_that_names_nothing_is_broken() {
        assert_eq!(compare("1. **All hold.**\n", &[]), ["SPEC.md names no test"]);
    }
}
