//! What became of each spec of a suite on a node, as a file that is kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::blocks::Block;
pub use super::ginkgo::SpecState;
use crate::{Error, Result, program};

/// Of the file's layout.
const VERSION: u32 = 1;

/// The share of a suite's specs, in percent, that a kubelet must pass: below it the testbed is measured and not the node.
pub const ENOUGH: usize = 90;

/// One spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecResult {
    /// Its whole name.
    pub name: String,
    /// Its source file.
    pub file: String,
    /// What became of it.
    pub state: SpecState,
    /// Why it did not pass, if anything said so.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How long it took.
    pub seconds: f64,
}

/// The specs of a suite on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Of this file.
    pub version: u32,
    /// The suite's name.
    pub suite: String,
    /// The node's name in the results.
    pub node: String,
    /// The program that has the specs, and its version.
    pub upstream: String,
    /// When they were run.
    pub date: String,
    /// Whether all specs of the suite were asked for.
    pub whole: bool,
    /// Each spec, by name.
    pub specs: Vec<SpecResult>,
}

/// How many of a suite's specs passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Passed.
    pub passed: usize,
    /// All but those that say themselves that they do not apply here; those that were left out or not reached count as not
    /// passed.
    pub of: usize,
}

impl Share {
    /// Whether the comparison with these results counts.
    #[must_use]
    pub fn is_enough(self) -> bool {
        self.of > 0 && self.passed * 100 >= self.of * ENOUGH
    }

    /// In whole percent, rounded down, so that 90 % is said only where the rule holds.
    #[must_use]
    pub fn percent(self) -> usize {
        (self.passed * 100).checked_div(self.of).unwrap_or_default()
    }
}

impl Results {
    /// Of a run that has just ended; the specs are sorted by name.
    #[must_use]
    pub fn new(suite: &str, node: &str, upstream: String, mut specs: Vec<SpecResult>) -> Self {
        specs.sort_by(|one, other| one.name.cmp(&other.name));
        let (suite, node) = (suite.to_owned(), node.to_owned());
        Self { version: VERSION, suite, node, upstream, date: String::new(), whole: true, specs }
    }

    /// How many have this state.
    #[must_use]
    pub fn count(&self, state: SpecState) -> usize {
        self.specs.iter().filter(|spec| spec.state == state).count()
    }

    /// How many were run to their end.
    #[must_use]
    pub fn ran(&self) -> usize {
        self.count(SpecState::Passed) + self.count(SpecState::Failed)
    }

    /// Those that should have passed and did not: they failed, or were not reached.
    pub fn failures(&self) -> impl Iterator<Item = &SpecResult> {
        self.specs.iter().filter(|spec| matches!(spec.state, SpecState::Failed | SpecState::NotRun))
    }

    /// The share that passed.
    #[must_use]
    pub fn share(&self) -> Share {
        Share { passed: self.count(SpecState::Passed), of: self.specs.len() - self.count(SpecState::Skipped) }
    }

    /// Passed and run, and whatever there is besides: what the table of results shows.
    #[must_use]
    pub fn counts(&self) -> String {
        let mut text = format!("{} of {}", self.count(SpecState::Passed), self.ran());
        let besides = [
            (SpecState::NotRun, "not reached"),
            (SpecState::Skipped, "skip themselves"),
            (SpecState::LeftOut, "left out"),
        ];
        for (state, what) in besides {
            let count = self.count(state);
            if count > 0 {
                text.push_str(&format!("; {count} {what}"));
            }
        }
        text
    }

    /// The part of it that one block has.
    #[must_use]
    pub fn of_block(&self, block: &Block) -> Self {
        let specs = self.specs.iter().filter(|spec| block.has_file(&spec.file)).cloned().collect();
        Self { specs, ..self.clone() }
    }

    /// Where they are kept below `dir`: those of a part of a suite do not replace those of all of it.
    #[must_use]
    pub fn path(&self, dir: &Path) -> PathBuf {
        let part = if self.whole { "" } else { "-part" };
        dir.join(format!("{}{part}.json", file_stem(&self.suite, &self.node)))
    }

    /// Writes them below `dir`. Returns where.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep(&self, dir: &Path) -> Result<PathBuf> {
        let path = self.path(dir);
        let said = |error: serde_json::Error| Error::Record { path: path.clone(), said: error.to_string() };
        let text = serde_json::to_string_pretty(self).map_err(said)?;
        fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
        let fresh = path.with_extension("new");
        fs::write(&fresh, text).map_err(Error::file("write", &fresh))?;
        fs::rename(&fresh, &path).map_err(Error::file("replace", &path))?;
        Ok(path)
    }

    /// Reads what was kept.
    ///
    /// # Errors
    /// If there is no such file, or it is not of this version.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
        let wrong = |said: String| Error::Record { path: path.to_owned(), said };
        let results: Self = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if results.version == VERSION {
            return Ok(results);
        }
        Err(wrong(format!("version {}", results.version)))
    }

    /// Those of the whole suite on this node, if they were kept below `dir`.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn kept(dir: &Path, suite: &str, node: &str) -> Result<Option<Self>> {
        let path = dir.join(format!("{}.json", file_stem(suite, node)));
        if path.exists() { Self::read(&path).map(Some) } else { Ok(None) }
    }
}

/// The date and time of now.
///
/// # Errors
/// If `date` cannot be run.
pub fn now() -> Result<String> {
    program::text(Command::new("date").args(["-u", "+%FT%TZ"]))
}

fn file_stem(suite: &str, node: &str) -> String {
    format!("{suite}-{}", node.replace(' ', "-"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::blocks::BLOCKS;
    use super::*;

    /// Results of the suite `node`; names and what became of them.
    pub(in super::super) fn results(node: &str, specs: &[(&str, SpecState)]) -> Results {
        let spec = |&(name, state): &(&str, SpecState)| SpecResult {
            name: name.to_owned(),
            file: "k/test/e2e/common/node/pods.go".into(),
            state,
            message: String::new(),
            seconds: 1.0,
        };
        Results::new("node", node, "e2e.test 1.37.1".into(), specs.iter().map(spec).collect())
    }

    #[test]
    fn a_kubelet_must_pass_nine_tenths_of_what_applies() {
        assert!(Share { passed: 90, of: 100 }.is_enough());
        assert!(!Share { passed: 89, of: 100 }.is_enough());
        assert!(!Share { passed: 899, of: 1000 }.is_enough());
        assert_eq!(Share { passed: 899, of: 1000 }.percent(), 89);
        assert!(!Share { passed: 0, of: 0 }.is_enough());
        let some =
            [SpecState::Passed, SpecState::Skipped, SpecState::Failed, SpecState::NotRun, SpecState::LeftOut];
        let specs: Vec<(&str, SpecState)> = some.into_iter().map(|state| ("a", state)).collect();
        assert_eq!(results("containerd", &specs).share(), Share { passed: 1, of: 4 });
    }

    #[test]
    fn what_was_not_run_is_counted_beside_what_was() {
        let specs = [("a", SpecState::Passed), ("b", SpecState::Failed)];
        assert_eq!(results("containerd", &specs).counts(), "1 of 2");
        let specs = [
            ("a", SpecState::Passed),
            ("b", SpecState::Skipped),
            ("c", SpecState::NotRun),
            ("d", SpecState::LeftOut),
        ];
        let all = results("containerd", &specs);
        assert_eq!(all.counts(), "1 of 1; 1 not reached; 1 skip themselves; 1 left out");
        assert_eq!(all.failures().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn results_are_read_as_they_were_kept_and_a_part_does_not_replace_the_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let whole = results("containerd agent", &[("b", SpecState::Passed), ("a", SpecState::Failed)]);
        assert_eq!(whole.specs[0].name, "a");
        let path = whole.keep(dir.path()).expect("kept");
        assert!(path.ends_with("node-containerd-agent.json"), "{path:?}");
        let part = Results { whole: false, ..results("containerd agent", &[("b", SpecState::Failed)]) };
        part.keep(dir.path()).expect("kept");
        let kept = Results::kept(dir.path(), "node", "containerd agent").expect("readable");
        assert_eq!(kept, Some(whole));
        assert_eq!(Results::kept(dir.path(), "node", "containerd").expect("nothing there"), None);
    }

    #[test]
    fn a_file_of_another_version_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Results { version: 2, ..results("containerd", &[]) }.keep(dir.path()).expect("kept");
        assert!(Results::read(&path).expect_err("another version").to_string().contains("version 2"));
    }

    #[test]
    fn a_block_has_the_specs_of_its_files() {
        let mut all = results("containerd", &[("a", SpecState::Passed), ("b", SpecState::Failed)]);
        all.specs[1].file = "k/test/e2e/common/storage/empty_dir.go".into();
        let counts: Vec<String> = BLOCKS.iter().map(|block| all.of_block(block).counts()).collect();
        assert_eq!(counts.iter().filter(|counts| *counts != "0 of 0").count(), 2);
        assert_eq!(counts[0], "1 of 1");
    }
}
