//! The tutorial's pods, run for real: every `console root` block of docs/tutorial, command by command, on a machine
//! with nothing but this program. A line that is just `…` stands for any lines, `…` in a line for any characters.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testbed::{Part, Parts, Testbed};

const ANY: &str = "…";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Commands with what they show, in the page's order.
fn commands(page: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if let Some(fence) = line.strip_prefix("```") {
            inside = fence == "console root";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            found.push((command.to_owned(), Vec::new()));
        } else if inside {
            found.last_mut().expect("a block starts with a command").1.push(line.to_owned());
        }
    }
    found
}

/// Whether the pieces are there in their order, the first at the beginning and the last at the end.
fn line_reads_as(found: &str, expected: &str) -> bool {
    let mut pieces = expected.split(ANY);
    let Some(mut rest) = found.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
        last = Some(piece);
    }
    last.map_or(rest.is_empty(), |last| found.ends_with(last))
}

fn reads_as(found: &[&str], expected: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((&ANY, rest)) => (0..=found.len()).any(|skip| reads_as(&found[skip..], rest)),
        Some((line, rest)) => found
            .split_first()
            .is_some_and(|(one, more)| line_reads_as(one.trim_end(), line) && reads_as(more, rest)),
    }
}

/// A directory with the checkout's scripts and examples in it, gone with the testbed.
fn checkout(testbed: &Testbed) -> PathBuf {
    let dir = testbed.record().places.data.join("checkout");
    std::fs::create_dir(&dir).unwrap();
    for name in ["examples", "scripts"] {
        std::os::unix::fs::symlink(top().join(name), dir.join(name)).unwrap();
    }
    dir
}

/// What a terminal would show.
fn ran(testbed: &Testbed, dir: &Path, command: &str) -> String {
    let programs = Path::new(env!("CARGO_BIN_EXE_wardlet")).parent().unwrap();
    let script = format!("exec 2>&1; cd {}; PATH={}:$PATH; {command}", dir.display(), programs.display());
    let mut shell: Command = testbed.command("sh");
    let output = shell.arg("-c").arg(script).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Who leaves pods to themselves may still hear of their start, or not.
    let hears = |line: &&str| !(command.contains(" --detach ") && line.contains(": started "));
    text.lines().filter(hears).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_tutorials_pods_show_what_the_tutorial_says() {
    let page = std::fs::read_to_string(top().join("docs/tutorial/first-pod.md")).unwrap();
    let commands = commands(&page);
    assert!(commands.len() >= 10, "only {} commands were found", commands.len());
    let testbed = Testbed::start(Parts::of(&[Part::Containerd])).expect("a machine");
    let dir = checkout(&testbed);
    for (command, expected) in commands {
        let found = ran(&testbed, &dir, &command);
        let (found, expected): (Vec<&str>, Vec<&str>) =
            (found.lines().collect(), expected.iter().map(String::as_str).collect());
        assert!(
            reads_as(&found, &expected),
            "$ {command}\n--- found\n{}\n--- the page says\n{}\n",
            found.join("\n"),
            expected.join("\n")
        );
    }
}

#[test]
fn a_line_reads_as_another_only_where_it_may_differ() {
    assert!(line_reads_as("a 12 b", "a … b") && line_reads_as("a", "a") && line_reads_as("abc", "…"));
    assert!(!line_reads_as("a 12 b c", "a … b") && !line_reads_as("xa", "a") && !line_reads_as("a b", "a"));
    assert!(reads_as(&["x", "y", "z"], &["…", "z"]) && !reads_as(&["x", "y"], &["…", "z"]));
}
