//! What is printed, and what is kept below `target/test-results`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::build::Binary;
use crate::suite::{Outcome, Suite};

/// The directory of the results.
pub(crate) struct Kept(PathBuf);

impl Kept {
    /// Empty at first: nothing of an earlier run is taken for this one's.
    pub(crate) fn new(target: &Path) -> Result<Self, String> {
        let dir = target.join("test-results");
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        if dir.exists() {
            std::fs::remove_dir_all(&dir).map_err(failed)?;
        }
        std::fs::create_dir_all(&dir).map_err(failed)?;
        Ok(Self(dir))
    }

    pub(crate) fn log(&self, binary: &Binary) -> PathBuf {
        self.0.join(format!("{}-{}.log", binary.package, binary.name.replace(' ', "-")))
    }

    pub(crate) fn write(&self, results: &[(&Binary, Suite)]) -> Result<(), String> {
        let tests = results.iter().flat_map(|(binary, suite)| {
            suite.tests.iter().map(|test| {
                json!({
                    "package": binary.package, "binary": binary.name, "test": test.name,
                    "outcome": word(test.outcome), "seconds": test.seconds,
                })
            })
        });
        let file = self.0.join("results.json");
        let text = json!({ "tests": tests.collect::<Vec<_>>() }).to_string();
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "failed",
        Outcome::Ignored => "ignored",
    }
}

pub(crate) fn suite(binary: &Binary, suite: &Suite) {
    if let Some(output) = &suite.failure {
        println!("{output}");
    }
    // A program without tests of its own is not worth a line.
    if suite.tests.is_empty() {
        return;
    }
    let mark = if suite.passed() { "ok" } else { "FAILED" };
    let name = format!("{}/{}", binary.package, binary.name);
    println!("{name:<40} {mark:<6} {:>4} tests {:>6.1} s", suite.tests.len(), suite.seconds);
}

pub(crate) fn slowest(results: &[(&Binary, Suite)]) {
    let tests = results.iter().flat_map(|(binary, suite)| {
        suite.tests.iter().filter_map(|test| Some((test.seconds?, &binary.package, &test.name)))
    });
    let mut tests: Vec<_> = tests.collect();
    tests.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("\nthe twenty slowest tests, in seconds (all: target/test-results/results.json):");
    for (seconds, package, name) in tests.iter().take(20) {
        println!("{seconds:>6.1} {package} {name}");
    }
}

pub(crate) fn end(took: Duration, results: &[(&Binary, Suite)], broken: &[String]) {
    let count = |outcome| results.iter().map(|(_, suite)| suite.count(outcome)).sum::<usize>();
    for (binary, suite) in results {
        for test in suite.tests.iter().filter(|test| test.outcome == Outcome::Failed) {
            println!("failed: {} {} {}", binary.package, binary.name, test.name);
        }
    }
    for sentence in broken {
        println!("SPEC.md: {sentence}");
    }
    let passed = broken.is_empty() && results.iter().all(|(_, suite)| suite.passed());
    let verdict = if passed { "ok" } else { "FAILED" };
    // The words of Rust's own test harness, for programs that count by them.
    println!(
        "\ntest result: {verdict}. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out; finished in {:.2}s",
        count(Outcome::Passed),
        count(Outcome::Failed),
        count(Outcome::Ignored),
        took.as_secs_f64()
    );
}
