//! Programs of the workspace, for tests of other packages than theirs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// `target/PROFILE`: tests lie in `target/PROFILE/deps`.
fn profile() -> PathBuf {
    let here = std::env::current_exe().expect("a test knows its program");
    here.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps").to_owned()
}

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()));
    // Build scripts would take what cargo tells this test of its package for a change of theirs: each run would compile half of the
    // dependencies again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// The directory of wardlet's programs: `WARDLET_PROGRAMS`, or built once, in the target directory and profile of this test.
///
/// # Panics
/// Where they cannot be built.
pub fn programs() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(given) = std::env::var_os("WARDLET_PROGRAMS") {
            return given.into();
        }
        let dir = profile();
        let mut cargo = cargo();
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.args(["build", "-q", "-p", "wardlet", "-p", "monitor", "-p", "wardlet-container"]);
        cargo.arg("--target-dir").arg(dir.parent().expect("target/PROFILE"));
        if dir.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo runs").success(), "cannot build wardlet's programs");
        dir
    })
}

/// The program `examples/NAME.rs` of the package in the directory `package`, built if it is not there.
///
/// # Panics
/// Where it cannot be built.
#[must_use]
pub fn example(name: &str, package: &str) -> PathBuf {
    let program = profile().join("examples").join(name);
    if !program.exists() {
        let manifest = format!("{package}/Cargo.toml");
        let words = ["build", "-q", "--example", name, "--manifest-path", &manifest];
        let built = cargo().args(words).status().expect("cargo runs");
        assert!(built.success(), "cannot build the example `{name}`");
    }
    program
}
