//! Builds the programs and the tests, and finds the test binaries in what cargo reports.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    Fast,
    Full,
    Node,
}

impl Tier {
    pub(crate) fn includes(self, binary: &Binary) -> bool {
        match binary.kind {
            Kind::Fast => self != Self::Node,
            Kind::Root | Kind::Slow => self == Self::Full,
            Kind::Node => self == Self::Node,
        }
    }
}

/// In the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Fast,
    Root,
    Slow,
    Node,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Binary {
    pub(crate) kind: Kind,
    pub(crate) package: String,
    /// `root`, or `unit` for the tests inside a library or program.
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    /// The directory of the package's manifest.
    pub(crate) directory: PathBuf,
}

pub(crate) struct Built {
    pub(crate) root: PathBuf,
    /// `target`, or what `CARGO_TARGET_DIR` says.
    pub(crate) target: PathBuf,
    pub(crate) binaries: BTreeSet<Binary>,
}

pub(crate) fn build() -> Result<Built, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("no workspace")?.to_owned();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    eprintln!("building the programs");
    let mut programs = Command::new(&cargo);
    programs.current_dir(&root).args(["build", "--workspace", "--bins", "--examples"]);
    let built = programs.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.success() {
        return Err("the programs do not build".to_owned());
    }
    eprintln!("building the tests");
    let mut tests = Command::new(&cargo);
    tests.current_dir(&root).args(["test", "--workspace", "--no-run"]);
    tests.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = tests.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not build".to_owned());
    }
    let reported = String::from_utf8_lossy(&output.stdout);
    let messages = reported.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let binaries: BTreeSet<Binary> =
        messages.map(|message| binary(&message)).filter_map(Result::transpose).collect::<Result<_, _>>()?;
    if binaries.is_empty() {
        return Err("cargo built no tests".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(Built { root, target, binaries })
}

/// The test binary that a message of cargo's is about.
fn binary(message: &Value) -> Result<Option<Binary>, String> {
    let text = |pointer| message.pointer(pointer).and_then(Value::as_str);
    let of_tests = message.pointer("/profile/test") == Some(&Value::Bool(true));
    let Some(program) = text("/executable").filter(|_| of_tests) else {
        return Ok(None);
    };
    let directory = text("/manifest_path").and_then(|path| Path::new(path).parent());
    let directory = directory.ok_or_else(|| format!("{program}: cargo names no manifest"))?.to_owned();
    let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
    let package = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let package = package.ok_or_else(|| format!("{}: no package name", directory.display()))?.to_owned();
    let is_test = message.pointer("/target/kind/0").is_some_and(|kind| kind == "test");
    let target = text("/target/name").unwrap_or_default();
    let (kind, name) = match target {
        _ if !is_test => (Kind::Fast, format!("unit {target}")),
        "fast" => (Kind::Fast, target.to_owned()),
        "root" => (Kind::Root, target.to_owned()),
        "slow" => (Kind::Slow, target.to_owned()),
        "node" => (Kind::Node, target.to_owned()),
        other => {
            return Err(format!(
                "{}: the test binary `{other}` belongs to no tier\n\nhint: make it a module of tests/fast, \
                 tests/root, tests/slow or tests/node",
                directory.display()
            ));
        }
    };
    Ok(Some(Binary { kind, package, name, program: program.into(), directory }))
}
