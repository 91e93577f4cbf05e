//! Every command in README and docs is run, and what it shows is what it says.
//!
//! A ```` ```console ```` block holds `$ wardlet …` lines with what they print (stdout, then stderr); a
//! line that is just `…` stands for any lines. A block such as ```` ```yaml file=/etc/wardlet/config.yaml ````
//! is written to that file first. Each page has a host of its own with ten blocks from 65536. Other
//! commands may only be targets of the Makefile.

use crate::support;

use std::path::{Path, PathBuf};

use support::Host;

struct Block {
    fence: String,
    lines: Vec<String>,
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![top().join("README.md")];
    let mut folders = vec![top().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(fence) => {
                inside = true;
                blocks.push(Block { fence: fence.to_owned(), lines: vec![] });
            }
            None if inside => blocks.last_mut().unwrap().lines.push(line.to_owned()),
            None => {}
        }
    }
    blocks
}

/// Whether `found` reads as `expected`, where `…` stands for any lines.
fn reads_as(found: &[&str], expected: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((&"…", rest)) => (0..=found.len()).any(|skip| reads_as(&found[skip..], rest)),
        Some((line, rest)) => found
            .split_first()
            .is_some_and(|(f, more)| f.trim_end() == line.trim_end() && reads_as(more, rest)),
    }
}

/// A kubelet's directory and a manifest are arguments, not looked up under the host root: they are those of
/// the page's host.
fn on_host(words: &str) -> String {
    let words_apart: Vec<&str> = words.split_whitespace().collect();
    let takes_paths = matches!(words_apart[..], ["explain", ..] | [_, "import" | "export", ..]);
    if takes_paths { words.replace(" /", " HOST/") } else { words.to_owned() }
}

fn run_console(page: &str, host: &Host, lines: &[String]) -> usize {
    let starts: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].starts_with("$ ")).collect();
    assert_eq!(starts.first(), Some(&0), "{page}: a console block starts with a command");
    for (n, &start) in starts.iter().enumerate() {
        let end = starts.get(n + 1).copied().unwrap_or(lines.len());
        let words =
            lines[start].strip_prefix("$ wardlet ").unwrap_or_else(|| panic!("{page}: {}", lines[start]));
        let ran = host.run(&on_host(words));
        let found = format!("{}{}", ran.stdout, ran.stderr).replace("HOST", "");
        let expected = support::times_replaced(&lines[start + 1..end].join("\n"));
        let (found, expected): (Vec<&str>, Vec<&str>) = (found.lines().collect(), expected.lines().collect());
        assert!(
            reads_as(&found, &expected),
            "{page}: $ wardlet {words}\n--- found\n{}\n--- the page says\n{}\n",
            found.join("\n"),
            expected.join("\n")
        );
    }
    starts.len()
}

#[test]
fn every_command_in_the_docs_shows_what_the_docs_say() {
    let mut commands = 0;
    for page in pages() {
        let name = page.strip_prefix(top()).unwrap().display().to_string();
        let host = Host::new();
        for block in blocks(&std::fs::read_to_string(&page).unwrap()) {
            if let Some((_, file)) = block.fence.split_once("file=/") {
                host.write(file, &format!("{}\n", block.lines.join("\n")));
            } else if block.fence == "console" {
                commands += run_console(&name, &host, &block.lines);
            }
        }
    }
    assert!(commands >= 15, "only {commands} commands were found in the docs");
}

#[test]
fn every_make_target_in_the_docs_exists() {
    let makefile = std::fs::read_to_string(top().join("Makefile")).unwrap();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for line in text.lines().filter_map(|l| l.strip_prefix("    make ")) {
            let target = line.split_whitespace().next().unwrap();
            assert!(makefile.contains(&format!("\n{target}:")), "{}: make {target}", page.display());
        }
    }
}

#[test]
fn every_link_between_the_docs_leads_somewhere() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = page.parent().unwrap().join(target);
            assert!(path.exists(), "{}: {link} leads nowhere", page.display());
        }
    }
}

/// SPEC.md: numbered promises, each with tests that exist.
#[test]
fn every_promise_names_tests_that_exist() {
    let spec = std::fs::read_to_string(top().join("SPEC.md")).unwrap();
    let is_promise = |l: &str| l.split_once(". **").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
    let (mut promise, mut held) = (None, true);
    for line in spec.lines() {
        if is_promise(line) {
            assert!(held, "nothing holds {promise:?}");
            (promise, held) = (Some(line.to_owned()), false);
        } else if let Some((file, test)) =
            line.trim_start().strip_prefix("- ").and_then(|l| l.split_once(": "))
        {
            let text = std::fs::read_to_string(top().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
            assert!(text.contains(&format!("fn {test}(")), "{file} has no test {test}");
            held = true;
        }
    }
    assert!(held && promise.is_some(), "nothing holds {promise:?}");
}
