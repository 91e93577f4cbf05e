//! The command line of wardlet: it parses, wires and prints; what is true is decided in the crates
//! behind it.
//!
//! - [`cli`]: the words of the command line.
//! - [`config`]: the typed configuration and how it is read.
//! - [`pool`]: where the node's pool of IDs comes from.
//! - [`node`]: one node as a command sees it: configuration, pool, census, ledger.
//! - [`commands`]: one file for each command.
//! - [`check`]: what `check` reads, finds out and shows.
//! - [`explain`]: what `explain` reads, finds out and shows.
//! - [`doctor`]: what `doctor` looks at and tries.
//! - [`place`]: paths of the node and the filesystems under them.
//! - [`image`]: what `image` reads and shows.
//! - [`verify`]: what `verify` looks at, checks and shows.
//! - [`run`]: what `run`, `ps`, `logs`, `exec` and `stop` do.
//! - [`printable`]: what comes from others, made harmless for a terminal.
//! - [`output`], [`words`], [`picture`], [`lease_view`], [`verdict_view`], [`time`]: how answers look.
//! - [`failure`]: what is said, and which exit code is given, when there is no answer.

mod check;
mod cli;
mod commands;
mod doctor;
mod explain;
mod failure;
mod host_programs;
mod image;
mod lease_view;
mod node;
mod output;
mod picture;
mod place;
mod printable;
mod run;
mod time;
mod verdict_view;
mod verify;
mod words;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    kernel::keep_heap_together();
    let cli = cli::Cli::parse();
    match commands::run(&cli) {
        Ok(code) => code,
        Err(failure) => {
            words::failure(&failure);
            failure.exit_code()
        }
    }
}
