//! What goes to stdout.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use report::printable;
use serde::Serialize;

use crate::failure::Failure;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs; fields are added, never changed.
    Json,
    /// As json, in YAML.
    Yaml,
    /// SARIF 2.1.0, for code scanning; of `check` only.
    Sarif,
    /// JUnit XML, for CI systems; of `check` only.
    Junit,
    /// A page that stands alone; of `check` only.
    Html,
}

impl Format {
    /// Writes `value`, for people as `table` has it.
    pub(crate) fn print(self, value: &impl Serialize, table: impl FnOnce() -> String) -> Result<(), Failure> {
        let text = match self {
            Self::Table => table(),
            Self::Json => serde_json::to_string_pretty(value).map_err(unprintable)? + "\n",
            Self::Yaml => serde_saphyr::to_string(value).map_err(unprintable)?,
            Self::Sarif | Self::Junit | Self::Html => return Err(self.unknown_here()),
        };
        write(&text)
    }
}

impl Format {
    fn unknown_here(self) -> Failure {
        let name = self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        Failure::unknown(format!("-o {name}: only `wardlet check` has this format"))
            .with_hint("-o table, json or yaml")
    }
}

fn unprintable(e: impl std::fmt::Display) -> Failure {
    Failure::unknown(format!("cannot write the result: {e}"))
}

/// A reader that has seen enough closes its end: that is no failure. On a terminal no control character is written:
/// names and words of pods and images are in answers.
pub(crate) fn write(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let text = if out.is_terminal() { printable(text) } else { text.into() };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(unprintable(e)),
        _ => Ok(()),
    }
}
