//! The log of a command: which events it shows, and how.

use std::io::{IsTerminal, Write};

use clap::{ArgAction, Args, ValueEnum};
use report::printable;
use telemetry::log::{Filter, Format, Log, Prefix, Text};
use tracing::level_filters::LevelFilter;

use crate::cli::Command;

/// Libraries of servers: their messages begin with the server's name.
const SERVERS: [&str; 5] = ["api_client", "apiserver", "controller", "kubelet_api", "secure_serving"];

// Options of the commands that run for long. No doc comment: it would replace the help text of the command.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct LogArgs {
    /// Log more: with `run`, also what the built-in runtime does; given twice, also each call of the runtime. With
    /// `cri`, also each request that changes something
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// How the log on stderr is written
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// A JSON object a line: time, level, target, message, fields, pod
    Json,
}

/// The log of this command.
pub(crate) fn of(command: &Command) -> Log {
    let (args, server) = match command {
        Command::Run(args) => (args.log, None),
        Command::Cri(args) => (args.log, Some("wardlet cri")),
        Command::Agent(args) => (args.log, Some("wardlet agent")),
        Command::Controller(args) => (args.log, Some("wardlet controller")),
        _ => (LogArgs::default(), None),
    };
    let format = match args.log_format {
        LogFormat::Text => {
            let runtime = Prefix::Words(server.unwrap_or("runtime"));
            let text = Text::default().with("agent", Prefix::Pod).with("runtime", runtime);
            Format::Text(SERVERS.into_iter().fold(text, |text, name| text.with(name, runtime)))
        }
        LogFormat::Json => Format::Json,
    };
    // The built-in runtime's problems reach `run` as answers to what it asks.
    let quiet_runtime = if server.is_some() { LevelFilter::INFO } else { LevelFilter::OFF };
    Log::new(filter(args.verbose, quiet_runtime), format, Box::new(write_line))
}

/// Crates that are not ours log nothing unless each call is logged.
fn filter(verbose: u8, quiet_runtime: LevelFilter) -> Filter {
    let (others, own, runtime) = match (verbose, quiet_runtime) {
        (0, quiet) => (LevelFilter::OFF, LevelFilter::INFO, quiet),
        (1, LevelFilter::OFF) => (LevelFilter::OFF, LevelFilter::INFO, LevelFilter::INFO),
        _ => (LevelFilter::WARN, LevelFilter::DEBUG, LevelFilter::DEBUG),
    };
    let own_crates = ["wardlet", "node", "agent"].into_iter().chain(SERVERS);
    own_crates.fold(Filter::new(others), |all, name| all.with(name, own)).with("runtime", runtime)
}

/// Writes a line to stderr; on a terminal without control characters, because the line may quote pods, images and
/// registries. A reader that has gone away is no reason to fail.
pub(crate) fn write_line(text: &str) {
    let mut stderr = std::io::stderr();
    let text = if stderr.is_terminal() { printable(text) } else { text.into() };
    let _ = stderr.write_all(format!("{text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_shows_the_runtime_only_when_asked_and_cri_always() {
        let levels = |verbose, quiet| {
            let filter = filter(verbose, quiet);
            ["apiserver", "node", "runtime", "hyper"].map(|name| filter.level(name))
        };
        let (off, warn) = (LevelFilter::OFF, LevelFilter::WARN);
        let (info, debug) = (LevelFilter::INFO, LevelFilter::DEBUG);
        assert_eq!(levels(0, off), [info, info, off, off]);
        assert_eq!(levels(1, off), [info, info, info, off]);
        assert_eq!(levels(2, off), [debug, debug, debug, warn]);
        assert_eq!(levels(0, info), [info, info, info, off]);
        assert_eq!(levels(1, info), [debug, debug, debug, warn]);
    }
}
