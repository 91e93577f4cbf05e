//! The command line of wardlet.
//!
//! - [`cli`]: the grammar of the command line and its help texts.
//! - [`commands`]: one file for each command.
//! - [`node`]: the node that a command works on: configuration, pool, census and ledger. The configuration and the sources
//!   of the pool themselves are in the crate `settings`.
//! - [`check`], [`doctor`], [`explain`], [`image`], [`verify`]: what each of these commands reads, decides and prints.
//! - [`run`]: `run`, `ps`, `logs`, `exec` and `stop`.
//! - [`place`]: paths of the node and the filesystems under them.
//! - [`host_programs`]: mounts of the host without `nosuid`, where set-user-ID bits that a pod leaves count.
//! - [`printable`]: escapes control characters in text from pods, images and registries for a terminal.
//! - [`output`], [`words`], [`picture`], [`lease_view`], [`verdict_view`], [`time`]: the format of answers and messages.
//! - [`failure`]: errors that end a command, and their exit codes.

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
