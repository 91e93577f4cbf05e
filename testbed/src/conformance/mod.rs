//! Results of the conformance tests, and the table of them in docs/conformance.md.
//!
//! A command or a test [`record`]s its counts in the file that `WARDLET_CONFORMANCE` names; without that variable
//! nothing is recorded. [`write()`] puts the table of all results into the document, and keeps those of earlier runs of what was
//! not run this time. [`suites`]: selections of upstream's specs; [`run`], [`results`] and [`compare`]: what becomes of them on a
//! kubelet and on ours; [`blocks`]: the parts of one suite.

pub mod blocks;
pub mod compare;
mod earlier;
mod ginkgo;
pub mod results;
pub mod run;
pub mod suites;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use self::blocks::BLOCKS;
use self::earlier::Earlier;
use self::suites::{EXCEPTIONS, LEFT_OUT, SUITES};
use crate::{Error, Result, program};

/// Names the file of the results.
const FILE: &str = "WARDLET_CONFORMANCE";

/// The lines between which the document has the table.
const BEGIN: &str = "<!-- written by `make test-conformance`: begin -->";
const END: &str = "<!-- written by `make test-conformance`: end -->";

/// What the table says of tests without a result.
const NOT_RUN: &str = "not run";

/// The nodes that upstream's specs are run on: the name in the results, and what the table calls it. The first is the measure of
/// the others.
pub const NODES: [(&str, &str); 3] = [
    ("containerd", "a kubelet on containerd"),
    ("containerd agent", "`wardlet agent` on containerd"),
    ("wardlet agent", "`wardlet agent` on the built-in runtime"),
];

/// Every result of a whole run, by the name under which it is recorded, and what it is.
const ROWS: [(&str, &str); 15] = [
    ("e2e-userns containerd", "upstream's user namespace specs, containerd"),
    ("e2e-userns wardlet", "upstream's user namespace specs, built-in runtime"),
    ("e2e-userns containerd agent", "upstream's user namespace specs, `wardlet agent` on containerd"),
    ("e2e-userns wardlet agent", "upstream's user namespace specs, `wardlet agent` on the built-in runtime"),
    ("critest containerd", "critest, containerd"),
    ("critest wardlet", "critest, built-in runtime"),
    ("show-userns containerd", "one pod with `hostUsers: false` by hand, containerd"),
    ("show-userns wardlet", "one pod with `hostUsers: false` by hand, built-in runtime"),
    ("check-patches", "a patch of `wardlet check` on a real node"),
    ("compare-cri", "CRI requests against a kubelet's"),
    ("compare-cri agent", "CRI requests of `wardlet agent` against a kubelet's"),
    ("oracle", "generated objects against the API server's validation"),
    ("found", "named cases against the API server's validation"),
    ("pod-security", "Pod Security fixtures against upstream's evaluator"),
    ("node", "tests that need a node to themselves"),
];

/// One result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Outcome {
    name: String,
    counts: String,
    /// What failed, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failures: Vec<String>,
}

/// Records the counts of tests if `WARDLET_CONFORMANCE` names a file. A later result takes the place of an earlier one.
///
/// # Errors
/// If the file cannot be written.
pub fn record(name: &str, counts: &str) -> Result<()> {
    record_specs(name, counts, &[])
}

/// The same, with the names of the specs that failed.
///
/// # Errors
/// If the file cannot be written.
pub fn record_specs(name: &str, counts: &str, failures: &[String]) -> Result<()> {
    let clean = |text: &str| text.replace(['\n', '|'], " ");
    let failures = failures.iter().map(|name| clean(name)).collect();
    let outcome = Outcome { name: name.to_owned(), counts: clean(counts), failures };
    match std::env::var_os(FILE) {
        Some(file) => append(Path::new(&file), &outcome),
        None => Ok(()),
    }
}

fn append(file: &Path, outcome: &Outcome) -> Result<()> {
    let line = serde_json::to_string(&outcome).unwrap_or_default();
    let opened = File::options().create(true).append(true).open(file);
    opened.and_then(|mut out| writeln!(out, "{line}")).map_err(Error::file("write", file))
}

/// Writes commit, date and all results into the document. What has no result keeps the one that the document has, with its
/// commit and date.
///
/// # Errors
/// If a file cannot be read or written, the document has no place for the table, or git does not know the commit.
pub fn write(results: &Path, document: &Path) -> Result<()> {
    let run =
        Run { commit: commit(document)?, date: program::text(Command::new("date").args(["-u", "+%F"]))? };
    let lines = fs::read_to_string(results).map_err(Error::file("read", results))?;
    let text = fs::read_to_string(document).map_err(Error::file("read", document))?;
    let wrong = |said: String| Error::Record { path: document.to_owned(), said };
    let outcomes = outcomes(results, &lines)?;
    let earlier = Earlier::read(text_of_table(&text).map_err(wrong)?);
    let next = with_table(&text, &table(&run, &outcomes, &earlier)).map_err(wrong)?;
    fs::write(document, next).map_err(Error::file("write", document))
}

/// What was tested, and when.
struct Run {
    commit: String,
    date: String,
}

/// The commit, and whether anything but the document differs from it.
fn commit(document: &Path) -> Result<String> {
    let dir = document.parent().map_or_else(|| PathBuf::from("."), Path::to_owned);
    let git = |words: &[&str]| program::text(Command::new("git").arg("-C").arg(&dir).args(words));
    let name = document.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no", "--", ":/", &format!(":(exclude){name}")])?;
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    Ok(if changed.is_empty() { commit } else { format!("{commit} with changes") })
}

fn outcomes(file: &Path, lines: &str) -> Result<Vec<Outcome>> {
    let wrong = |error: serde_json::Error| Error::Record { path: file.to_owned(), said: error.to_string() };
    lines.lines().map(|line| serde_json::from_str(line).map_err(wrong)).collect()
}

fn table(run: &Run, outcomes: &[Outcome], earlier: &Earlier<'_>) -> String {
    let mut text = format!("Commit {}, {}.\n\n| tests | result |\n|---|---|\n", run.commit, run.date);
    for (name, what) in ROWS {
        let result = last(outcomes, name).map(|outcome| outcome.counts.clone());
        text.push_str(&format!("| {what} | {} |\n", shown(result.or_else(|| earlier.cell(what, 1)))));
    }
    text + &table_of_specs(outcomes, earlier)
}

/// The last result of this name.
fn last<'a>(outcomes: &'a [Outcome], name: &str) -> Option<&'a Outcome> {
    outcomes.iter().rev().find(|outcome| outcome.name == name)
}

fn shown(result: Option<String>) -> String {
    result.unwrap_or_else(|| NOT_RUN.to_owned())
}

/// Upstream's specs, by suite or block and by node; what failed, by name; what was left out, and what is an exception.
fn table_of_specs(outcomes: &[Outcome], earlier: &Earlier<'_>) -> String {
    let heads = NODES.map(|(_, what)| what).join(" | ");
    let mut text = format!("\n| upstream's specs of a node | {heads} |\n|---|---|---|---|\n");
    let mut failures = String::new();
    let suites = SUITES.iter().map(|suite| (suite.title, NODES.map(|(node, _)| suite.record(node))));
    let blocks = BLOCKS.iter().map(|block| (block.title, NODES.map(|(node, _)| block.record(node))));
    for (title, records) in suites.chain(blocks) {
        let mut cells = Vec::new();
        for (column, (record, (_, what))) in (1..).zip(records.iter().zip(NODES)) {
            let place = format!("{what}, {title}");
            let outcome = last(outcomes, record);
            let result = outcome.map(|outcome| outcome.counts.clone());
            cells.push(shown(result.or_else(|| earlier.cell(title, column))));
            failures.push_str(&match outcome {
                Some(outcome) => failed(&place, &outcome.failures),
                None => earlier.failed(&place),
            });
        }
        text.push_str(&format!("| {title} | {} |\n", cells.join(" | ")));
    }
    if !failures.is_empty() {
        text.push_str(&format!("\nWhat failed:\n\n{failures}"));
    }
    text.push_str("\nLeft out on every node:\n\n");
    for (name, reason) in LEFT_OUT {
        text.push_str(&format!("- `{name}`: {reason}\n"));
    }
    text.push_str("\nPass on a kubelet and are known not to pass here:\n\n");
    for one in EXCEPTIONS {
        let on = |(node, what): &(&str, &'static str)| one.nodes.contains(node).then_some(*what);
        let nodes: Vec<&str> = NODES.iter().filter_map(on).collect();
        text.push_str(&format!("- `{}`, {}: {}\n", one.spec, nodes.join(" and "), one.cause));
    }
    text
}

/// A line for each spec that failed, and where: on which node, in which block.
fn failed(place: &str, names: &[String]) -> String {
    names.iter().map(|name| format!("- {place}: `{name}`\n")).collect()
}

/// What the document has between its marks.
fn text_of_table(document: &str) -> Result<&str, String> {
    split(document).map(|(_, table, _)| table)
}

fn with_table(document: &str, table: &str) -> Result<String, String> {
    let (before, _, after) = split(document)?;
    Ok(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

fn split(document: &str) -> Result<(&str, &str, &str), String> {
    let missing = || format!("there is no place for the results between {BEGIN:?} and {END:?}");
    let (before, rest) = document.split_once(BEGIN).ok_or_else(missing)?;
    let (table, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok((before, table, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run { commit: "abc".into(), date: "2026-01-02".into() }
    }

    fn outcome(name: &str, counts: &str, failures: &[&str]) -> Outcome {
        let failures = failures.iter().map(|&name| name.to_owned()).collect();
        Outcome { name: name.to_owned(), counts: counts.to_owned(), failures }
    }

    #[test]
    fn the_last_result_of_each_test_is_in_the_table_and_what_is_missing_was_not_run() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("results");
        for (name, counts) in [("oracle", "old"), ("critest wardlet", "112 of 114"), ("oracle", "20000 all")]
        {
            append(&file, &outcome(name, counts, &[])).expect("written");
        }
        let lines = fs::read_to_string(&file).expect("read");
        let text = table(&run(), &outcomes(&file, &lines).expect("results"), &Earlier::default());
        assert!(text.starts_with("Commit abc, 2026-01-02.\n"), "{text}");
        let row = |line: &str| text.lines().any(|found| found == line);
        assert!(row("| generated objects against the API server's validation | 20000 all |"), "{text}");
        assert!(row("| critest, built-in runtime | 112 of 114 |"), "{text}");
        assert!(row("| critest, containerd | not run |"), "{text}");
        let cells = (SUITES.len() + BLOCKS.len()) * NODES.len();
        assert_eq!(text.matches("not run").count(), ROWS.len() - 2 + cells);
    }

    #[test]
    fn each_failed_spec_is_named_with_its_node_and_what_is_left_out_with_its_reason() {
        let failed = "[sig-node] Pods should be updated";
        let outcomes = [
            outcome("block pods containerd", "23 of 23", &[]),
            outcome("block pods wardlet agent", "22 of 23", &[failed]),
        ];
        let text = table(&run(), &outcomes, &Earlier::default());
        let row = format!("| {} | 23 of 23 | not run | 22 of 23 |", BLOCKS[0].title);
        assert!(text.lines().any(|line| line == row), "{text}");
        let named = format!("- `wardlet agent` on the built-in runtime, {}: `{failed}`", BLOCKS[0].title);
        assert_eq!(text.lines().filter(|line| line.contains(failed)).collect::<Vec<_>>(), [named]);
        assert_eq!(text.lines().filter(|line| line.ends_with(": it takes 27 minutes")).count(), 1);
        let exception = text.lines().find(|line| line.starts_with("- `RestartAllContainers`"));
        assert!(exception.is_some_and(|line| line.contains("agent` on containerd and `wardlet agent` on the built-in")));
    }

    #[test]
    fn what_was_not_run_again_keeps_its_result_its_failures_and_its_commit() {
        let first = [
            outcome("oracle", "all", &[]),
            outcome("found", "120 of 120", &[]),
            outcome("block pods containerd", "1 of 2", &["[sig-node] Pods a"]),
            outcome("block node containerd", "2 of 3", &["[sig-node] NodeLease b"]),
        ];
        let old = table(&run(), &first, &Earlier::default());
        let second = [outcome("found", "119 of 120", &[]), outcome("block node containerd", "3 of 3", &[])];
        let next = Run { commit: "def".into(), date: "2026-01-03".into() };
        let new = table(&next, &second, &Earlier::read(&old));
        let row = |text: &str, line: &str| assert!(text.lines().any(|found| found == line), "{line}: {text}");
        row(&new, "| generated objects against the API server's validation | all; at abc, 2026-01-02 |");
        row(&new, "| named cases against the API server's validation | 119 of 120 |");
        row(&new, &format!("| {} | 1 of 2; at abc, 2026-01-02 | not run | not run |", BLOCKS[0].title));
        row(&new, "| the node object | 3 of 3 | not run | not run |");
        assert_eq!(new.matches("[sig-node] Pods a").count(), 1, "{new}");
        assert_eq!(new.matches("[sig-node] NodeLease b").count(), 0, "{new}");
        let third = table(&run(), &[], &Earlier::read(&new));
        row(&third, "| generated objects against the API server's validation | all; at abc, 2026-01-02 |");
        row(&third, "| named cases against the API server's validation | 119 of 120; at def, 2026-01-03 |");
        assert_eq!(third.matches("[sig-node] Pods a").count(), 1, "{third}");
    }

    #[test]
    fn the_document_keeps_all_but_its_table() {
        let document = include_str!("../../../docs/conformance.md");
        let once = with_table(document, "| one |\n").expect("a place for the table");
        assert_eq!(with_table(&once, "| one |\n").expect("still"), once);
        assert!(once.contains("| one |"));
        let (before, rest) = document.split_once(BEGIN).expect("it begins");
        let (_, after) = rest.split_once(END).expect("it ends");
        assert!(once.starts_with(before) && once.ends_with(after) && !after.is_empty());
        assert!(with_table("no place", "").is_err());
    }
}
