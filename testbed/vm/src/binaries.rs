//! Our own programs, built so that they run where there is no library: glibc, linked statically.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::host;

/// Named although it is the host's own: only then are the flags below kept from build scripts and
/// macros, and the results apart from those of an ordinary build.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const FLAGS: (&str, &str) =
    ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static");

const SECCOMP: [(&str, &str); 2] =
    [("LIBSECCOMP_LINK_TYPE", "static"), ("LIBSECCOMP_LIB_PATH", "/usr/lib/x86_64-linux-gnu")];

/// Builds the program `name` of the workspace's crate `package`, static. Returns its path. The working
/// directory must be in the checkout.
pub fn static_binary(package: &str, name: &str) -> Result<PathBuf> {
    build(&["build", "-p", package, "--bin", name], name)
}

/// Builds the integration test `name` of the workspace's crate `package`, static. Returns its path.
pub fn static_test(package: &str, name: &str) -> Result<PathBuf> {
    build(&["test", "--no-run", "-p", package, "--test", name], name)
}

fn build(what: &[&str], name: &str) -> Result<PathBuf> {
    let output = host::read(cargo().args(what).args([
        "--quiet",
        "--target",
        TARGET,
        "--message-format=json-render-diagnostics",
    ]))?;
    executable(&output, name).ok_or_else(|| Error::Incomplete {
        what: format!("the program {name}"),
        place: Path::new("target").into(),
    })
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // These two, where set, would take the place of the target's own flags.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").env(FLAGS.0, FLAGS.1);
    // Libraries that are not Rust's are static only where that is said, and is found.
    command.envs(SECCOMP);
    // The guest has its files in memory.
    command.env("CARGO_PROFILE_DEV_STRIP", "debuginfo");
    command
}

/// The path in cargo's messages, one JSON object per line.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message.pointer("/target/name").and_then(|n| n.as_str()) == Some(name))
        .find_map(|message| message.get("executable").and_then(|e| e.as_str()).map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"lib\"},\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"p\"},\"executable\":\"/t/p\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages, "p"), Some(PathBuf::from("/t/p")));
        assert_eq!(executable(messages, "q"), None);
    }
}
