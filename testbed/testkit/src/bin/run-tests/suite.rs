//! Runs one test binary, and reads from its output when each test began and ended.
//!
//! Rust's test harness prints a line when a test ends, but no times. It starts tests in the order of their names, as many at once as it has
//! threads, and the next one whenever one ends. So the n-th test begins when as many tests have ended as are before it, less
//! those that run beside it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::build::Binary;

/// A binary that prints nothing for so long has hung.
const SILENCE: Duration = Duration::from_mins(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Ignored,
}

#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    /// Unknown where the output of something else tore the test's line.
    pub(crate) seconds: Option<f64>,
}

pub(crate) struct Suite {
    pub(crate) tests: Vec<Test>,
    pub(crate) seconds: f64,
    /// The whole output, where the binary failed.
    pub(crate) failure: Option<String>,
}

impl Suite {
    pub(crate) fn passed(&self) -> bool {
        self.failure.is_none()
    }

    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        self.tests.iter().filter(|test| test.outcome == outcome).count()
    }
}

/// As `cargo test` would run it: in the package's directory, with cargo's variables.
fn command(binary: &Binary, target: &Path) -> Command {
    let mut command = Command::new(&binary.program);
    command.current_dir(&binary.directory).env("CARGO_MANIFEST_DIR", &binary.directory);
    // The programs are built: no test needs to build them again.
    command.env("WARDLET_PROGRAMS", target.join("debug")).stdin(Stdio::null());
    command
}

pub(crate) fn run(binary: &Binary, target: &Path, log: &Path) -> Result<Suite, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", binary.program.display());
    let listed = command(binary, target).args(["--list", "--format=terse"]).output().map_err(failed)?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    if names.is_empty() {
        return Ok(Suite { tests: Vec::new(), seconds: 0.0, failure: None });
    }
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let errors = log.with_extension("stderr");
    let began = Instant::now();
    let mut running = command(binary, target);
    running.arg(format!("--test-threads={threads}")).stdout(Stdio::piped());
    running.stderr(std::fs::File::create(&errors).map_err(failed)?);
    let mut child = running.spawn().map_err(failed)?;
    let mut output = String::new();
    let mut ends = Vec::new();
    let hung = read(&mut child, |line| {
        output.push_str(line);
        output.push('\n');
        if let Some((name, outcome)) = result_line(line) {
            ends.push((name.to_owned(), outcome, began.elapsed()));
        }
    });
    if hung {
        child.kill().map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    let seconds = began.elapsed().as_secs_f64();
    output.push_str(&std::fs::read_to_string(&errors).unwrap_or_default());
    std::fs::remove_file(&errors).map_err(failed)?;
    if hung {
        let minutes = SILENCE.as_secs() / 60;
        output.push_str(&format!("the binary printed nothing for {minutes} minutes and was killed\n"));
    }
    std::fs::File::create(log).and_then(|mut file| file.write_all(output.as_bytes())).map_err(failed)?;
    let tests = judge(&names, &times(&names, &ends, threads), status.success());
    Ok(Suite { tests, seconds, failure: (!status.success()).then_some(output) })
}

/// Hands on each line until the binary ends; true where it hangs.
///
/// A process that a test left running may still have the pipe: the end of the binary counts, not the end of its output.
fn read(child: &mut Child, mut line: impl FnMut(&str)) -> bool {
    let lines = lines(child);
    let mut last = Instant::now();
    loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(text) => {
                line(&text);
                last = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) => {
                if !matches!(child.try_wait(), Ok(None)) {
                    lines.try_iter().for_each(|text| line(&text));
                    return false;
                }
                if last.elapsed() > SILENCE {
                    return true;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut bytes = Vec::new();
            while stdout.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
                let text = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
                if sender.send(text).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
    }
    lines
}

/// `test some::name ... ok`
fn result_line(line: &str) -> Option<(&str, Outcome)> {
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let outcome = match outcome {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        other if other.starts_with("ignored") => Outcome::Ignored,
        _ => return None,
    };
    Some((name.strip_suffix(" - should panic").unwrap_or(name), outcome))
}

/// By name: the outcome, and the seconds that the test took.
fn times<'a>(
    names: &[&'a str],
    ends: &[(String, Outcome, Duration)],
    threads: usize,
) -> BTreeMap<&'a str, (Outcome, f64)> {
    let mut waiting: VecDeque<&str> = names.iter().copied().collect();
    let mut begins: BTreeMap<&str, Duration> =
        waiting.drain(..threads.min(names.len())).map(|name| (name, Duration::ZERO)).collect();
    let mut found = BTreeMap::new();
    for (name, outcome, end) in ends {
        if let Some(next) = waiting.pop_front() {
            begins.insert(next, *end);
        }
        if let Some(name) = names.iter().find(|known| *known == name) {
            let begin = begins.get(name).copied().unwrap_or(*end);
            found.insert(*name, (*outcome, end.saturating_sub(begin).as_secs_f64()));
        }
    }
    found
}

/// A test without a line of its own has the outcome of the whole.
fn judge(names: &[&str], times: &BTreeMap<&str, (Outcome, f64)>, passed: bool) -> Vec<Test> {
    let otherwise = if passed { Outcome::Passed } else { Outcome::Failed };
    let test = |name: &&str| match times.get(*name) {
        Some((outcome, seconds)) => {
            Test { name: (*name).to_owned(), outcome: *outcome, seconds: Some(*seconds) }
        }
        None => Test { name: (*name).to_owned(), outcome: otherwise, seconds: None },
    };
    names.iter().map(test).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_from_the_order_in_which_tests_end() {
        let names = ["a", "b", "c", "d"];
        let end = |name: &str, at| (name.to_owned(), Outcome::Passed, Duration::from_secs(at));
        // a and b begin at once; c begins when b ends, d when c ends.
        let ends = [end("b", 1), end("c", 3), end("a", 4), end("d", 5)];
        let times = times(&names, &ends, 2);
        let seconds = names.map(|name| times[name].1);
        assert!(seconds.iter().zip([4.0, 1.0, 2.0, 2.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{seconds:?}");
    }

    #[test]
    fn lines_of_the_harness_are_read_and_others_are_not() {
        assert_eq!(result_line("test a::b ... ok"), Some(("a::b", Outcome::Passed)));
        assert_eq!(result_line("test a::b - should panic ... FAILED"), Some(("a::b", Outcome::Failed)));
        assert_eq!(result_line("test a ... ignored, needs a disk"), Some(("a", Outcome::Ignored)));
        assert_eq!(result_line("test result: ok. 1 passed"), None);
        assert_eq!(result_line("test a has been running for over 60 seconds"), None);
    }

    #[test]
    fn a_test_without_a_line_fails_with_its_binary() {
        let outcome = |passed| judge(&["a"], &BTreeMap::new(), passed)[0].outcome;
        assert_eq!((outcome(true), outcome(false)), (Outcome::Passed, Outcome::Failed));
    }
}
