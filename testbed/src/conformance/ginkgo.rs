//! What ginkgo writes with `--json-report`, as far as it is read here, and how one spec is asked for by its name.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::{Error, Result};

/// How much of a message is kept.
const MESSAGE: usize = 600;

/// What became of a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecState {
    /// It did as it should.
    Passed,
    /// It did not, or not in time.
    Failed,
    /// It said itself that it does not apply here.
    Skipped,
    /// The run ended before its turn.
    NotRun,
    /// It was not asked for: see [`super::suites::LEFT_OUT`].
    LeftOut,
}

/// One node of ginkgo's tree: a spec, or a step of the whole suite.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Report {
    container_hierarchy_texts: Option<Vec<String>>,
    container_hierarchy_labels: Option<Vec<Option<Vec<String>>>>,
    leaf_node_type: String,
    #[serde(default)]
    leaf_node_location: Location,
    leaf_node_labels: Option<Vec<String>>,
    leaf_node_text: String,
    state: String,
    /// Nanoseconds.
    #[serde(default)]
    run_time: u64,
    #[serde(default)]
    failure: Failure,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Location {
    #[serde(default)]
    file_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    spec_reports: Option<Vec<Report>>,
}

impl Report {
    /// Whether it is a spec.
    pub(super) fn is_spec(&self) -> bool {
        self.leaf_node_type == "It"
    }

    /// The texts of its containers and its own.
    pub(super) fn name(&self) -> String {
        let containers = self.container_hierarchy_texts.iter().flatten();
        let texts = containers.chain([&self.leaf_node_text]).filter(|text| !text.is_empty());
        texts.map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Its source file.
    pub(super) fn file(&self) -> &str {
        &self.leaf_node_location.file_name
    }

    /// Whether it or one of its containers has the label.
    pub(super) fn has_label(&self, label: &str) -> bool {
        let containers = self.container_hierarchy_labels.iter().flatten().flatten().flatten();
        containers.chain(self.leaf_node_labels.iter().flatten()).any(|one| one == label)
    }

    /// Whether a dry run has selected it.
    pub(super) fn is_selected(&self) -> bool {
        self.is_spec() && self.state == "passed"
    }

    /// What became of it. A spec that the run did not come to is skipped without a message.
    pub(super) fn spec_state(&self) -> SpecState {
        match self.state.as_str() {
            "passed" => SpecState::Passed,
            "skipped" if !self.failure.message.is_empty() => SpecState::Skipped,
            "skipped" | "pending" => SpecState::NotRun,
            _ => SpecState::Failed,
        }
    }

    /// Why it failed or was skipped, on one line.
    pub(super) fn message(&self) -> String {
        let line = self.failure.message.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().take(MESSAGE).collect()
    }

    /// How long it took.
    pub(super) fn seconds(&self) -> f64 {
        std::time::Duration::from_nanos(self.run_time).as_secs_f64()
    }

    /// What the suite said before its first spec, if that is why no spec was run.
    pub(super) fn setup_failure(&self) -> Option<String> {
        let setup = self.leaf_node_type.ends_with("BeforeSuite") && self.spec_state() == SpecState::Failed;
        setup.then(|| format!("{}: {}", self.leaf_node_type, self.message()))
    }
}

/// Reads a report.
pub(super) fn read(path: &Path) -> Result<Vec<Report>> {
    let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
    reports(&text)
        .map_err(|error| Error::Record { path: path.to_owned(), said: format!("ginkgo's report: {error}") })
}

fn reports(text: &str) -> serde_json::Result<Vec<Report>> {
    let suites: Vec<Suite> = serde_json::from_str(text)?;
    Ok(suites.into_iter().filter_map(|suite| suite.spec_reports).flatten().collect())
}

/// A regular expression that matches the spec of this name and no other.
pub(super) fn focus(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len() + 16);
    for letter in name.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern + "$"
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"[{"SuitePath": "/x", "SpecReports": [
      {"ContainerHierarchyTexts": null, "ContainerHierarchyLabels": null, "LeafNodeType": "SynchronizedBeforeSuite",
       "LeafNodeLocation": {"FileName": "e2e.go", "LineNumber": 1}, "LeafNodeLabels": null, "LeafNodeText": "",
       "State": "failed", "RunTime": 5, "Failure": {"Message": "no\n  node"}},
      {"ContainerHierarchyTexts": ["[sig-node] Pods"], "ContainerHierarchyLabels": [["sig-node"], null],
       "LeafNodeType": "It", "LeafNodeLocation": {"FileName": "k/test/e2e/common/node/pods.go", "LineNumber": 7},
       "LeafNodeLabels": ["Serial"], "LeafNodeText": "should run (twice) [Serial]", "State": "passed",
       "RunTime": 1500000000},
      {"ContainerHierarchyTexts": ["a"], "ContainerHierarchyLabels": [], "LeafNodeType": "It", "LeafNodeLocation": {},
       "LeafNodeLabels": null, "LeafNodeText": "b", "State": "skipped", "RunTime": 0,
       "Failure": {"Message": "only on Windows"}},
      {"ContainerHierarchyTexts": ["a"], "ContainerHierarchyLabels": [], "LeafNodeType": "It", "LeafNodeLocation": {},
       "LeafNodeLabels": null, "LeafNodeText": "c", "State": "skipped", "RunTime": 0},
      {"ContainerHierarchyTexts": ["a"], "ContainerHierarchyLabels": [], "LeafNodeType": "It", "LeafNodeLocation": {},
       "LeafNodeLabels": null, "LeafNodeText": "d", "State": "timedout", "RunTime": 0}
    ]}]"#;

    #[test]
    fn a_report_of_ginkgo_is_read() {
        let all = reports(REPORT).expect("a report");
        assert_eq!(all[0].setup_failure().as_deref(), Some("SynchronizedBeforeSuite: no node"));
        assert!(!all[0].is_spec() && all[1].setup_failure().is_none());
        let spec = &all[1];
        assert!(spec.is_selected());
        assert_eq!(spec.name(), "[sig-node] Pods should run (twice) [Serial]");
        assert_eq!(spec.file(), "k/test/e2e/common/node/pods.go");
        assert!(spec.has_label("Serial") && spec.has_label("sig-node") && !spec.has_label("Slow"));
        assert!((spec.seconds() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn a_spec_that_skips_itself_is_not_one_that_was_not_reached() {
        let states: Vec<SpecState> =
            reports(REPORT).expect("a report").iter().skip(1).map(Report::spec_state).collect();
        assert_eq!(states, [SpecState::Passed, SpecState::Skipped, SpecState::NotRun, SpecState::Failed]);
    }

    #[test]
    fn a_name_is_asked_for_literally_and_to_its_end() {
        assert_eq!(
            focus("[sig-node] a *not* (b) {c} 1.2? $x|y^z \\ +"),
            r"\[sig-node\] a \*not\* \(b\) \{c\} 1\.2\? \$x\|y\^z \\ \+$"
        );
    }
}
