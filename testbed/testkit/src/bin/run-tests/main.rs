//! Runs the workspace's tests of a tier: what CI decides by.
//!
//! Every test binary of the tier runs once, and a test that fails is a failure: nothing is tried again. The time of each test
//! and its outcome are kept in `target/test-results/results.json`, the output of each binary beside it. In the tier `full` every test
//! that SPEC.md names must have run and passed in this run.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod build;
mod promises;
mod report;
mod suite;

use std::process::ExitCode;
use std::time::Instant;

use build::Tier;

const USAGE: &str = "\
usage: run-tests fast|full|node

  fast   unit tests, properties, the command line; no root, no components
  full   everything that `make test` promises; root
  node   tests that need a whole node to themselves; root

Each crate has at most four test binaries beside its unit tests: fast, root, slow, node.";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let tier = match (words.next().as_deref(), words.next()) {
        (Some("fast"), None) => Tier::Fast,
        (Some("full"), None) => Tier::Full,
        (Some("node"), None) => Tier::Node,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if tier != Tier::Fast && !rustix::process::geteuid().is_root() {
        eprintln!("error: this tier tests on the real kernel and needs root\n");
        eprintln!("hint: sudo make test, or make test-fast for what needs no root");
        return ExitCode::from(2);
    }
    match run(tier) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(tier: Tier) -> Result<bool, String> {
    let began = Instant::now();
    let built = build::build()?;
    let kept = report::Kept::new(&built.target)?;
    let mut results = Vec::new();
    for binary in built.binaries.iter().filter(|binary| tier.includes(binary)) {
        let suite = suite::run(binary, &built.target, &kept.log(binary))?;
        report::suite(binary, &suite);
        results.push((binary, suite));
    }
    kept.write(&results)?;
    report::slowest(&results);
    let broken = if tier == Tier::Full { promises::broken(&built.root, &results)? } else { Vec::new() };
    report::end(began.elapsed(), &results, &broken);
    Ok(broken.is_empty() && results.iter().all(|(_, suite)| suite.passed()))
}
