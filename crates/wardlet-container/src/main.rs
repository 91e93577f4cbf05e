//! Starts one container, or one more process in it, and ends.
//!
//! | where | what |
//! |---|---|
//! | [`run`] | prepares a container in a mount namespace of its own and has an engine start it |
//! | [`exec`] | starts one more process in a running container, with the restrictions of its first one |
//! | [`delete`] | removes the remains of a container |
//! | [`features`] | what an engine says that it can do, and what it does when tried |
//!
//! This program has one thread and is never part of a longer-lived process: engines fork, change the
//! working directory and join namespaces as they please.

mod delete;
mod exec;
mod failure;
mod features;
mod files;
mod host_id;
mod place;
mod run;
mod sealed;
mod seccomp;
mod sweep;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use failure::Failure;

const USAGE: &str =
    "wardlet-container run DIR [--console SOCKET] | exec DIR | delete DIR | features ENGINE [ARG]...";

fn main() -> ExitCode {
    kernel::default_signals();
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    // In the trial container there is nothing to protect, and no privilege to do so.
    let inside = words.first().is_some_and(|word| word == features::TRIAL);
    let code = match if inside { Ok(()) } else { sealed::unwritable() } {
        Ok(()) => obey(&words),
        Err(failure) => told(&failure),
    };
    ExitCode::from(code)
}

fn obey(words: &[OsString]) -> u8 {
    let names: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let path = |at: usize| PathBuf::from(words.get(at).cloned().unwrap_or_default());
    match names.as_slice() {
        ["run", _] => run::command(&path(1), None),
        ["run", _, "--console", _] => run::command(&path(1), Some(&path(3))),
        ["exec", _] => exec::command(&path(1)),
        ["delete", _] => delete::command(&path(1)).map_or_else(|failure| told(&failure), |()| 0),
        ["features", engine, args @ ..] => {
            features::command(engine, args).map_or_else(|failure| told(&failure), |()| 0)
        }
        [run::HOLD] => run::hold(),
        [features::TRIAL, _] => features::trial(&path(1)),
        _ => told(&Failure::of(format!("usage: {USAGE}"))),
    }
}

/// Prints a failure on standard error.
fn told(failure: &Failure) -> u8 {
    eprintln!("wardlet-container: {}", failure.what);
    if let Some(hint) = &failure.hint {
        eprintln!("\nhint: {hint}");
    }
    2
}
