//! A real API server and kubectl's strict validation say of every manifest of the corpus what we say.

use crate::support;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use manifest::{read, validate};
use plan::Gates;
use support::{Case, Verdict, corpus};
use testbed::{Parts, Testbed};

/// Manifests on which we differ, with the reason: the table of docs/explanation/strictness.md, row by row.
const KNOWN: &[(&str, Verdict, &str)] = &[
    (
        "SPEC volumes: [{name: v}]",
        Verdict::Accepted,
        "the server makes it an `emptyDir`, which the API calls deprecated; a source that was forgotten must not become an empty directory",
    ),
    (
        "SPEC volumes: [{name: v, emptyDir: }]",
        Verdict::Accepted,
        "nothing after the colon is null, so the volume has no source: as above; `emptyDir: {}` is meant",
    ),
    (
        "SPEC volumes: [{name: v, projected: {sources: [{}]}}]",
        Verdict::Accepted,
        "the server only warns; a source that says nothing projects nothing, so a file would be missing in the container",
    ),
    (
        "CONTAINER ports: [{containerPort: 1, hostPort: 1, hostIP: x}]",
        Verdict::Accepted,
        "the server does not look at `hostIP`; no port of a host can be opened on what is no address",
    ),
    (
        "a key twice",
        Verdict::Accepted,
        "kubectl keeps the last value and sends only that; which `hostUsers` was meant is in doubt",
    ),
    (
        "a key twice in json",
        Verdict::Accepted,
        "the same; the server itself refuses this text when it gets it as it is",
    ),
];

/// What pods of the corpus name. Without them admission would refuse a pod that is valid.
const NAMED: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: sa, namespace: default}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: gvisor}
handler: runsc
";

/// kubectl, and what it keeps between its calls.
struct Server {
    testbed: Testbed,
    cache: tempfile::TempDir,
}

/// A verdict with the words for it.
#[derive(Debug)]
struct Said {
    verdict: Verdict,
    words: String,
}

impl Server {
    fn start() -> Self {
        let testbed = Testbed::start(Parts::control_plane()).unwrap();
        let server = Self { testbed, cache: tempfile::tempdir().unwrap() };
        let named = server.create(NAMED, &[]);
        assert!(named.verdict == Verdict::Accepted, "{}", named.words);
        server
    }

    fn create(&self, text: &str, options: &[&str]) -> Said {
        let mut kubectl = self.testbed.command("kubectl");
        kubectl.arg("create").args(options).arg("--validate=strict");
        kubectl.arg(format!("--cache-dir={}", self.cache.path().display())).args(["-f", "-"]);
        kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = kubectl.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let verdict = if output.status.success() { Verdict::Accepted } else { Verdict::Refused };
        Said { verdict, words: String::from_utf8_lossy(&output.stderr).trim().to_owned() }
    }

    /// What becomes of every manifest, in the corpus' order; some at once, as kubectl mostly waits.
    fn verdicts(&self, corpus: &[Case]) -> Vec<Said> {
        let next = AtomicUsize::new(0);
        let take = || {
            let indices = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
            let taken = indices.map_while(|index| corpus.get(index).map(|case| (index, case)));
            taken
                .map(|(index, case)| (index, self.create(&case.text, &["--dry-run=server"])))
                .collect::<Vec<_>>()
        };
        let mut all: Vec<(usize, Said)> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, said)| said).collect()
    }
}

fn ours(case: &Case) -> Said {
    let reading = read("m.yaml", case.text.as_bytes());
    let checked = reading.objects.iter().flat_map(|object| validate(object, &Gates::default()));
    let words: Vec<String> = reading.findings.iter().cloned().chain(checked).map(|f| f.to_string()).collect();
    let verdict = if words.is_empty() { Verdict::Accepted } else { Verdict::Refused };
    Said { verdict, words: words.join("; ") }
}

/// A difference, as the table in the documentation has it.
fn row(name: &str, theirs: Verdict, reason: &str) -> String {
    let (theirs, ours) = match theirs {
        Verdict::Accepted => ("accepted", "refused"),
        Verdict::Refused => ("refused", "accepted"),
    };
    format!("| `{name}` | {theirs} | {ours} | {reason} |")
}

/// The rows of the first table; the second has classes without a verdict.
fn documented() -> Vec<String> {
    let text = include_str!("../../../../docs/explanation/strictness.md");
    let verdict = |line: &&str| line.contains(" | accepted | ") || line.contains(" | refused | ");
    text.lines().filter(|line| line.starts_with("| `")).filter(verdict).map(str::to_owned).collect()
}

/// A refusal must be about the manifest: a server that cannot be reached refuses nothing.
fn is_about_the_manifest(said: &Said) -> bool {
    let about = ["is invalid", "(BadRequest)", "unable to decode"];
    said.verdict == Verdict::Accepted || about.iter().any(|words| said.words.contains(words))
}

#[test]
fn the_documentation_lists_the_known_differences_and_no_others() {
    let known: Vec<String> = KNOWN.iter().map(|(name, theirs, reason)| row(name, *theirs, reason)).collect();
    assert_eq!(documented(), known);
}

#[test]
fn the_real_api_server_accepts_and_refuses_what_we_accept_and_refuse() {
    let corpus = corpus();
    assert!(corpus.len() >= 300, "{}", corpus.len());
    let server = Server::start();
    let began = Instant::now();
    let theirs = server.verdicts(&corpus);
    let took = began.elapsed();
    let mut counts = [0; 2];
    let mut same_field = 0;
    let mut differences = BTreeMap::new();
    for (case, theirs) in corpus.iter().zip(theirs) {
        assert!(is_about_the_manifest(&theirs), "{}: {}", case.name, theirs.words);
        let ours = ours(case);
        match (theirs.verdict, ours.verdict) {
            (Verdict::Accepted, Verdict::Accepted) => counts[0] += 1,
            (Verdict::Refused, Verdict::Refused) => {
                counts[1] += 1;
                same_field += usize::from(theirs.words.contains(&case.field));
            }
            _ => drop(differences.insert(case.name.as_str(), (theirs, ours))),
        }
    }
    println!(
        "{} manifests in {:.1} s: both accept {}, both refuse {} ({same_field} naming the field alike), {} differ",
        corpus.len(),
        took.as_secs_f64(),
        counts[0],
        counts[1],
        differences.len()
    );
    compare_with_known(differences);
}

fn compare_with_known(mut differences: BTreeMap<&str, (Said, Said)>) {
    for (name, verdict, _) in KNOWN {
        let (theirs, _) = differences.remove(name).unwrap_or_else(|| panic!("no longer differs: {name}"));
        assert_eq!(theirs.verdict, *verdict, "{name}");
    }
    let said = |(theirs, ours): &(Said, Said)| format!("server: {:?}, we: {:?}", theirs.words, ours.words);
    let unknown: Vec<String> =
        differences.iter().map(|(name, both)| format!("{name}: {}", said(both))).collect();
    assert!(unknown.is_empty(), "not listed:\n{}", unknown.join("\n"));
}

#[test]
fn a_key_that_is_there_twice_is_lost_by_kubectl_and_not_by_the_server() {
    let corpus = corpus();
    let case = corpus.iter().find(|case| case.name == "a key twice in json").unwrap();
    let server = Server::start();
    let url = "--raw=/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Strict";
    let said = server.create(&case.text, &[url]);
    assert_eq!(said.verdict, Verdict::Refused);
    assert!(said.words.contains("duplicate field"), "{}", said.words);
}
