//! The lines that only one build has, and the list of those that are wanted.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};

/// What one build was seen to do with one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    /// What the lines are of: `explain`, `run files`, `run mount and namespace calls`.
    pub(crate) subject: &'static str,
    pub(crate) lines: Vec<String>,
}

/// A line of a subject that one build has more often than the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Difference {
    subject: &'static str,
    line: String,
    change: Change,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Only OLD has it.
    Gone,
    /// Only NEW has it.
    New,
    /// Both have the same lines, this is the first that stands elsewhere.
    Moved,
}

impl Change {
    const fn sign(self) -> char {
        match self {
            Self::Gone => '-',
            Self::New => '+',
            Self::Moved => '~',
        }
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} {}", self.subject, self.change.sign(), self.line)
    }
}

/// All differences, each with the inputs that show it.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    inputs: usize,
    observed: usize,
    /// How often OLD ended with which code.
    codes: BTreeMap<(&'static str, String), usize>,
    found: BTreeMap<Difference, Vec<String>>,
}

impl Differences {
    /// Compares what both builds did with the input of this name.
    pub(crate) fn add(&mut self, input: &str, old: &[Observed], new: &[Observed]) {
        self.inputs += 1;
        let mut subjects: Vec<&'static str> =
            old.iter().chain(new).map(|observed| observed.subject).collect();
        subjects.sort_unstable();
        subjects.dedup();
        for subject in subjects {
            let lines = |of: &[Observed]| -> Vec<String> {
                of.iter().filter(|o| o.subject == subject).flat_map(|o| o.lines.clone()).collect()
            };
            let (old, new) = (lines(old), lines(new));
            self.observed += old.len().max(new.len());
            if subject.ends_with("exit code") {
                old.iter().for_each(|code| *self.codes.entry((subject, code.clone())).or_default() += 1);
            }
            for (line, change) in changes(&old, &new) {
                let inputs = self.found.entry(Difference { subject, line, change }).or_default();
                inputs.push(input.to_owned());
            }
        }
    }

    /// Prints what was compared and every difference that is not wanted; whether there is none.
    pub(crate) fn report(&self, expected: &Expected) -> bool {
        let (wanted, unlisted): (Vec<_>, Vec<_>) =
            self.found.iter().partition(|(difference, _)| expected.reason(&difference.to_string()).is_some());
        for (difference, inputs) in &unlisted {
            let more = if inputs.len() > 3 { ", ..." } else { "" };
            let shown: Vec<&str> = inputs.iter().take(3).map(String::as_str).collect();
            println!(
                "{difference}\n    {} of {} inputs: {}{more}",
                inputs.len(),
                self.inputs,
                shown.join(", ")
            );
        }
        for entry in expected.unseen(self.found.keys().map(ToString::to_string)) {
            println!("listed but not seen: {entry}");
        }
        for ((subject, code), count) in &self.codes {
            println!("{subject} of OLD: {code}, {count} times");
        }
        println!(
            "{} inputs, {} lines compared: {} differences, {} of them wanted, {} unlisted",
            self.inputs,
            self.observed,
            self.found.len(),
            wanted.len(),
            unlisted.len()
        );
        if !unlisted.is_empty() {
            println!(
                "\nhint: correct NEW, or list the difference with its reason in scripts/compare.expected"
            );
        }
        unlisted.is_empty()
    }

    /// Every difference as the list of wanted ones names it.
    pub(crate) fn named(&self) -> Vec<String> {
        self.found.keys().map(ToString::to_string).collect()
    }
}

/// Lines that one side has more often; if there are none, the first that stands elsewhere.
fn changes(old: &[String], new: &[String]) -> Vec<(String, Change)> {
    let mut balance: BTreeMap<&String, i64> = BTreeMap::new();
    old.iter().for_each(|line| *balance.entry(line).or_default() -= 1);
    new.iter().for_each(|line| *balance.entry(line).or_default() += 1);
    let found: Vec<_> = balance
        .into_iter()
        .filter(|(_, balance)| *balance != 0)
        .map(|(line, balance)| (line.clone(), if balance < 0 { Change::Gone } else { Change::New }))
        .collect();
    if !found.is_empty() {
        return found;
    }
    let moved = old.iter().zip(new).find(|(old, new)| old != new);
    moved.map(|(old, _)| (old.clone(), Change::Moved)).into_iter().collect()
}

/// The wanted differences: patterns with `*` for any text, a reason each.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    pattern: String,
    reason: String,
}

impl Expected {
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(&text).with_context(|| file.display().to_string())
    }

    /// A line is a pattern; the comment lines above it are its reason, until an empty line.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let (mut entries, mut reason) = (Vec::new(), String::new());
        for (number, line) in text.lines().enumerate() {
            match line.trim_end() {
                "" => reason.clear(),
                line if line.starts_with('#') => {
                    reason.push_str(line.trim_start_matches('#'));
                }
                pattern if reason.trim().is_empty() => {
                    bail!("line {}: {pattern}: no reason; write it as a comment above", number + 1)
                }
                pattern => {
                    entries.push(Entry { pattern: pattern.to_owned(), reason: reason.trim().to_owned() });
                }
            }
        }
        Ok(Self { entries })
    }

    /// Why this difference is wanted, if it is.
    fn reason(&self, difference: &str) -> Option<&str> {
        self.entries
            .iter()
            .find(|entry| matches(&entry.pattern, difference))
            .map(|entry| entry.reason.as_str())
    }

    fn unseen(&self, found: impl Iterator<Item = String>) -> Vec<&str> {
        let found: Vec<String> = found.collect();
        let seen = |entry: &&Entry| found.iter().any(|difference| matches(&entry.pattern, difference));
        self.entries.iter().filter(|entry| !seen(entry)).map(|entry| entry.pattern.as_str()).collect()
    }
}

/// Whether the text is the pattern, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(start) else { return false };
    text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| matches(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(lines: &[&str]) -> Vec<Observed> {
        vec![Observed { subject: "explain", lines: lines.iter().map(|&line| line.to_owned()).collect() }]
    }

    fn found(old: &[&str], new: &[&str]) -> Vec<String> {
        let mut differences = Differences::default();
        differences.add("an input", &observed(old), &observed(new));
        differences.named()
    }

    #[test]
    fn equal_answers_do_not_differ() {
        assert_eq!(found(&["a = 1", "a = 1", "b"], &["a = 1", "a = 1", "b"]), Vec::<String>::new());
    }

    #[test]
    fn a_key_or_a_value_that_one_build_has_more_often_is_a_difference() {
        assert_eq!(
            found(&["a = 1", "b"], &["a = 2", "b", "b"]),
            ["explain: - a = 1", "explain: + a = 2", "explain: + b"]
        );
    }

    #[test]
    fn the_order_counts() {
        assert_eq!(found(&["a", "b"], &["b", "a"]), ["explain: ~ a"]);
    }

    #[test]
    fn a_subject_that_one_build_lacks_is_a_difference() {
        let mut differences = Differences::default();
        differences.add("an input", &observed(&["a"]), &[]);
        assert_eq!(differences.named(), ["explain: - a"]);
    }

    #[test]
    fn only_a_listed_difference_is_wanted() {
        let expected = Expected::parse("# events have reasons\nrun files: + *.reason = *\n").unwrap();
        let mut differences = Differences::default();
        differences.add("an input", &observed(&["a"]), &observed(&["b"]));
        assert!(!differences.report(&expected));
        let expected = Expected::parse("# a is called b\nexplain: - a\nexplain: + b\n").unwrap();
        assert!(differences.report(&expected));
        assert!(expected.unseen(differences.named().into_iter()).is_empty());
    }

    #[test]
    fn a_difference_without_a_reason_cannot_be_listed() {
        assert!(Expected::parse("# why\n\nexplain: + a\n").is_err());
    }
}
