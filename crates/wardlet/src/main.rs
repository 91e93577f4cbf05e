//! The command line of wardlet.
//!
//! - [`cli`]: the grammar of the command line and its help texts.
//! - [`commands`]: one file for each command.
//! - [`input`]: manifests from files, directories and standard input, read strictly.
//! - [`image`]: what `image` reads and prints.
//! - [`run`]: `run`, `ps`, `logs`, `exec` and `stop`.
//! - [`output`], [`words`], [`time`]: the format of answers and messages; what answers look like is in the crate `report`.
//! - [`log`]: the log on stderr, which messages go through.
//! - [`failure`]: errors that end a command, and their exit codes.

mod cli;
mod commands;
mod failure;
mod image;
mod input;
mod log;
mod output;
mod run;
mod time;
mod words;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    kernel::limit_malloc_arenas();
    let cli = cli::Cli::parse();
    if let Err(error) = log::of(&cli.command).install() {
        log::write_line(&format!("error: {error}"));
    }
    match commands::run(&cli) {
        Ok(code) => code,
        Err(failure) => {
            words::failure(&failure);
            failure.exit_code()
        }
    }
}
