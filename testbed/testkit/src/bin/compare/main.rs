//! Compares two builds of wardlet by what a caller can observe: keys and values of answers, exit codes, files, CRI requests,
//! mount and namespace calls. Free text may differ.
//!
//! - [`manifests`]: the inputs, from a seed: 500 manifests for `explain` and `check`, 30 pods for `run`.
//! - [`programs`]: one build, and its commands run over one input.
//! - [`ledger`]: `wardlet ids` on a ledger of its own and on one that OLD wrote; [`pods`]: `wardlet run` under strace;
//!   [`wrapper`]: `wardlet-oci` with runc under strace.
//! - [`shape`]: answers as lines that can be compared, without free text; [`files`]: the same of a directory;
//!   [`trace`]: the same of strace's output; [`mask`]: what differs from run to run, replaced by a name.
//! - [`difference`]: the lines that only one build has, and the list of those that are wanted.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod difference;
mod files;
mod ledger;
mod manifests;
mod mask;
mod pods;
mod programs;
mod self_test;
mod shape;
mod trace;
mod wrapper;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use difference::{Differences, Expected, Observed};
use programs::{Build, Scratch};

const USAGE: &str = "\
usage: compare [OPTION]... OLD NEW
       compare --self-test PROGRAMS

OLD, NEW and PROGRAMS are directories with wardlet, wardlet-oci, wardlet-monitor and wardlet-container.

  --expected FILE    wanted differences, a reason each [default: scripts/compare.expected]
  --manifests N      generated manifests for explain and check [default: 500]
  --pods N           generated pods for run, root only [default: 30]
  --seed N           another set of manifests and pods [default: 20]

Exit codes: 0 no unlisted difference, 1 at least one, 2 the comparison could not be made.";

/// What the command line asks for.
struct Arguments {
    builds: Vec<PathBuf>,
    expected: PathBuf,
    manifests: usize,
    pods: usize,
    seed: u64,
    self_test: bool,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let expected = repository()?.join("scripts/compare.expected");
        let mut arguments =
            Self { builds: vec![], expected, manifests: 500, pods: 30, seed: 20, self_test: false };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--expected" => arguments.expected = value()?.into(),
                "--manifests" => arguments.manifests = value()?.parse()?,
                "--pods" => arguments.pods = value()?.parse()?,
                "--seed" => arguments.seed = value()?.parse()?,
                "--self-test" => arguments.self_test = true,
                option if option.starts_with('-') => bail!("unknown option {option}\n\n{USAGE}"),
                directory => arguments.builds.push(directory.into()),
            }
        }
        if arguments.builds.len() != if arguments.self_test { 1 } else { 2 } {
            bail!("{USAGE}");
        }
        Ok(arguments)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether there is no difference but those that are wanted.
fn run() -> anyhow::Result<bool> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let scratch = Scratch::make()?;
    if let ([programs], true) = (arguments.builds.as_slice(), arguments.self_test) {
        return self_test::run(programs, &scratch);
    }
    let [old, new] = arguments.builds.as_slice() else { bail!("{USAGE}") };
    if arguments.pods > 0 && !rustix::process::geteuid().is_root() {
        bail!("pods are run by root\n\nhint: sudo scripts/compare OLD NEW, or --pods 0 to leave them out");
    }
    let expected = Expected::read(&arguments.expected)?;
    let builds = [Build::open("old", old, &scratch)?, Build::open("new", new, &scratch)?];
    let differences = compare(&builds, &scratch, &arguments)?;
    Ok(differences.report(&expected))
}

/// Both builds over all inputs.
fn compare(builds: &[Build; 2], scratch: &Scratch, arguments: &Arguments) -> anyhow::Result<Differences> {
    let mut differences = Differences::default();
    let mut cases = examples(scratch)?;
    cases.extend(manifests::write(scratch, arguments.manifests, arguments.seed)?);
    for (number, case) in cases.iter().enumerate() {
        progress("manifests", number, cases.len());
        let [old, new] = side_by_side(builds, |build| build.answers(case))?;
        differences.add(&case.name, &old, &new);
    }
    // Another comparison on this machine would lease the same host IDs and have the same control groups.
    let lock = std::fs::File::open("/var/tmp").context("cannot open /var/tmp")?;
    lock.lock().context("cannot lock /var/tmp")?;
    let [writer, _] = builds;
    let [old, new] = builds.each_ref().map(|build| ledger::observe(build, build));
    differences.add("ledger", &old?, &new?);
    let [old, new] = builds.each_ref().map(|build| ledger::observe(build, writer));
    differences.add("ledger of OLD", &old?, &new?);
    if arguments.pods == 0 {
        return Ok(differences);
    }
    let pods = pods::generate(scratch, arguments.pods, arguments.seed)?;
    for (number, pod) in pods.iter().enumerate() {
        progress("pods", number, pods.len());
        let [old, new] = builds.each_ref().map(|build| pods::observe(build, pod));
        differences.add(&pod.name, &old?, &new?);
    }
    for pod in wrapper::PODS {
        let [old, new] = builds.each_ref().map(|build| wrapper::observe(build, pod));
        differences.add(pod.name, &old?, &new?);
    }
    Ok(differences)
}

/// What both builds do, at the same time: answers do not depend on each other.
fn side_by_side(
    [old, new]: &[Build; 2],
    observe: impl Fn(&Build) -> anyhow::Result<Vec<Observed>> + Sync,
) -> anyhow::Result<[Vec<Observed>; 2]> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| observe(new));
        let old = observe(old)?;
        let Ok(new) = other.join() else { bail!("the thread of NEW panicked") };
        Ok([old, new?])
    })
}

/// The examples of the repository, as inputs for `explain` and `check`.
fn examples(scratch: &Scratch) -> anyhow::Result<Vec<manifests::Case>> {
    let mut cases = Vec::new();
    for directory in ["examples", "examples/stories", "benches/pods"] {
        let path = repository()?.join(directory);
        let entries = std::fs::read_dir(&path).with_context(|| path.display().to_string())?;
        for entry in entries {
            let file = entry?.path();
            if file.extension().is_some_and(|extension| extension == "yaml") {
                let name = format!("{directory}/{}", file.file_name().unwrap_or_default().display());
                cases.push(manifests::Case::of_file(name, &file, scratch)?);
            }
        }
    }
    cases.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(cases)
}

/// The repository that this program was built from.
pub(crate) fn repository() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("the package lies in a workspace")
}

fn progress(what: &str, number: usize, all: usize) {
    if number.is_multiple_of(25) {
        eprintln!("{what}: {number} of {all}");
    }
}
