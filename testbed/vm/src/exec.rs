use std::time::Duration;

use crate::frame::{Ended, Run};

/// Long enough for a test program under emulation on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A command for the guest, with all that can be said about it.
#[derive(Debug, Clone)]
pub struct Exec {
    pub(crate) run: Run,
    pub(crate) input: Vec<u8>,
    pub(crate) limit: Duration,
}

impl Exec {
    /// The program and its arguments; no input, two minutes.
    #[must_use]
    pub fn new<S: AsRef<str>>(argv: &[S]) -> Self {
        let argv = argv.iter().map(|word| word.as_ref().to_owned()).collect();
        Self { run: Run { argv, env: vec![] }, input: vec![], limit: LIMIT }
    }

    /// With this variable in its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.run.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With these bytes as its standard input.
    #[must_use]
    pub fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = bytes;
        self
    }

    /// Killed when it takes longer, as the host's clock has it.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    pub(crate) fn line(&self) -> String {
        self.run.argv.join(" ")
    }
}

/// One of a command's two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a command left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub ended: Ended,
    /// What it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Whether it ended with status 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.ended == Ended::Code(0)
    }

    /// Its exit status as a shell would give it: 128 and more for a signal.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self.ended {
            Ended::Code(code) => code,
            Ended::Signal(signal) => 128 + signal,
            Ended::NotStarted(_) => 127,
        }
    }

    /// Its standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Its standard error as text.
    #[must_use]
    pub fn words(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}
