//! Every command in README and docs is run, and what it shows is what it says.
//!
//! A ```` ```console ```` block holds `$ wardlet …` lines with what they print (stdout, then stderr); a
//! line that is just `…` stands for any lines. A block such as ```` ```yaml file=/etc/wardlet/config.yaml ````
//! is written to that file first. Each page has a host of its own with ten blocks from 65536. Other
//! commands may only be targets of the Makefile.

use crate::support;

use std::collections::BTreeMap;
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

/// More than this are no promises that a user can keep in mind.
const MOST_PROMISES: usize = 44;

/// A promise of SPEC.md: its first line, and the tests that hold it, each as package and function.
struct Promise {
    title: String,
    tests: Vec<(String, String)>,
}

/// A promise starts with `N. **`, numbered from 1 without a gap; `- package: test` below it names a test.
fn promises(spec: &str) -> Vec<Promise> {
    let mut promises: Vec<Promise> = Vec::new();
    for line in spec.lines() {
        let number = line.split_once(". **").and_then(|(number, _)| number.parse::<usize>().ok());
        if let Some(number) = number {
            assert_eq!(number, promises.len() + 1, "SPEC.md: promises are numbered in order: {line}");
            promises.push(Promise { title: line.to_owned(), tests: Vec::new() });
        } else if let Some(item) = line.trim_start().strip_prefix("- ") {
            let (package, test) = item.split_once(": ").unwrap_or_else(|| panic!("SPEC.md: {line}"));
            let promise = promises.last_mut().unwrap_or_else(|| panic!("SPEC.md: no promise above {line}"));
            promise.tests.push((package.to_owned(), test.to_owned()));
        }
    }
    promises
}

fn directory_of(package: &str) -> PathBuf {
    match package {
        "testbed" => top().join("testbed"),
        "vm" | "sweep" => top().join("testbed").join(package),
        "bench" => top().join("benches"),
        of_crates => top().join("crates").join(of_crates),
    }
}

/// All sources of a package but the tests of whole nodes (`tests/node*`), which `make test` does not run.
fn sources(package: &str) -> String {
    let mut text = String::new();
    let mut folders = vec![directory_of(package)];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("SPEC.md: package {package}: {e}"));
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if folder.ends_with("tests") && name.starts_with("node") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                text.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    text
}

/// SPEC.md: few numbered promises, each with tests that exist.
#[test]
fn every_promise_names_tests_that_exist() {
    let promises = promises(&std::fs::read_to_string(top().join("SPEC.md")).unwrap());
    assert!((1..=MOST_PROMISES).contains(&promises.len()), "SPEC.md has {} promises", promises.len());
    let mut read: BTreeMap<String, String> = BTreeMap::new();
    for Promise { title, tests } in promises {
        assert!(!tests.is_empty(), "no test holds {title}");
        for (package, test) in tests {
            let text = read.entry(package.clone()).or_insert_with_key(|package| sources(package));
            assert!(text.contains(&format!("fn {test}(")), "{package} has no test {test}, named by {title}");
        }
    }
}

/// `make build` installs nothing, and the image of the tutorial is made of busybox-static.
#[test]
fn the_tutorial_installs_what_its_image_is_made_of() {
    let page = std::fs::read_to_string(top().join("docs/tutorial/first-pod.md")).unwrap();
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("the page has no {text}"));
    assert!(at("    scripts/setup.sh run\n") < at("    make build\n"));
    let setup = std::fs::read_to_string(top().join("scripts/setup.sh")).unwrap();
    let needs = setup.lines().find(|line| line.starts_with("needs=")).unwrap();
    assert!(needs.contains("busybox-static:busybox"), "{needs}");
}

#[test]
fn an_image_without_a_static_busybox_fails_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    for busybox in ["/nowhere/busybox", "/bin/ls"] {
        let output = std::process::Command::new(top().join("scripts/busybox-image.sh"))
            .args(["localhost/x:1", dir.path().join("x.tar").to_str().unwrap()])
            .env("BUSYBOX", busybox)
            .output()
            .unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(words.starts_with(&format!("error: {busybox} is not there, or is not linked")), "{words}");
        assert!(words.contains("hint: scripts/setup.sh run"), "{words}");
    }
}

/// kubectl validates strictly by default, and the server refuses the field then.
#[test]
fn the_example_of_a_typo_says_what_kubectl_does() {
    let example = std::fs::read_to_string(top().join("examples/typo.yaml")).unwrap();
    assert!(example.contains("kubectl refuses it by default"), "{example}");
}
