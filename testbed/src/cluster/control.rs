//! The supervisor's socket: one line of JSON asks, one line answers.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::parts::{NodeAgent, Part};
use super::record::Record;
use crate::{Error, Result};

/// What can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Ends everything.
    Down,
    /// Starts those daemons of a part that do not run, and waits until it is ready.
    Start {
        /// Which.
        part: Part,
        /// A program that runs the daemon as its child, with its own arguments first: strace.
        wrapper: Vec<String>,
        /// What is in the kubelet's role from now on, if that changes.
        node_agent: Option<NodeAgent>,
    },
}

/// The answer: what went wrong, if anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) error: Option<String>,
}

/// A start includes waiting until the part is ready.
const PATIENCE: Duration = Duration::from_secs(150);

/// Asks the supervisor of `record`.
pub(crate) fn ask(record: &Record, request: &Request) -> Result<()> {
    let path = record.places.control();
    let said = |said: String| Error::Supervisor { name: record.name.clone(), said };
    let attempt = || -> std::io::Result<Answer> {
        let mut stream = UnixStream::connect(&path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        stream.write_all(line.as_bytes())?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    };
    match attempt() {
        Ok(Answer { error: None }) => Ok(()),
        Ok(Answer { error: Some(error) }) => Err(said(error)),
        Err(error) => Err(said(format!("no answer on {}: {error}", path.display()))),
    }
}

/// Reads one request.
pub(crate) fn receive(stream: &UnixStream) -> std::io::Result<Request> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Answers; an asker that has gone does not matter.
pub(crate) fn answer(mut stream: &UnixStream, error: Option<String>) {
    if let Ok(line) = serde_json::to_string(&Answer { error }) {
        let _ = writeln!(stream, "{line}");
    }
}
