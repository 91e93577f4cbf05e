//! What goes to stdout.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Failure;
use crate::printable::printable;

/// The widest line that is readable everywhere.
pub(crate) const WIDTH: usize = 80;

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
        Failure::unknown(format!("-o {name}: only check can be written like that"))
            .with_hint("-o table, json or yaml")
    }
}

fn unprintable(e: impl std::fmt::Display) -> Failure {
    Failure::unknown(format!("cannot write the answer: {e}"))
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

/// Columns two blanks apart, as narrow as they can be.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let header = header.map(str::to_owned);
    let all = || std::iter::once(&header).chain(rows);
    let mut widths = [0; N];
    for row in all() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in all() {
        let cells = widths.iter().zip(row).map(|(&width, cell)| format!("{cell:width$}  "));
        text.push_str(cells.collect::<String>().trim_end());
        text.push('\n');
    }
    text
}

/// `text` in lines of at most [`WIDTH`] columns, the second and later ones indented by `indent`.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    let words = text.trim_start();
    let mut lines = String::new();
    let mut line = text.get(..text.len() - words.len()).unwrap_or_default().to_owned();
    for word in words.split_whitespace() {
        let blank = !line.is_empty() && !line.ends_with(' ');
        if blank && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = " ".repeat(indent);
        } else if blank {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_no_blanks_at_the_end_of_a_line() {
        let rows = [["a".to_owned(), "long".to_owned()], ["bcd".to_owned(), String::new()]];
        assert_eq!(table(["X", "Y"], &rows), "X    Y\na    long\nbcd\n");
    }

    #[test]
    fn a_wrapped_line_is_never_wider_than_eighty_columns() {
        let text = wrapped(&"word ".repeat(60), 4);
        assert!(text.lines().count() > 3 && text.lines().all(|l| l.len() <= WIDTH), "{text}");
        assert_eq!(wrapped("  a  b", 4), "  a b\n");
        assert!(text.lines().skip(1).all(|l| l.starts_with("    word")), "{text}");
    }
}
