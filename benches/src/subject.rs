//! A program that is measured: it obeys one command a line and answers each with one line of JSON.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// What a command took.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    /// From the first operation's start to the last one's end, in nanoseconds.
    pub(crate) wall_ns: u64,
    /// Each operation by itself.
    pub(crate) ns: Vec<u64>,
    /// How many leases are held now.
    pub(crate) held: usize,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// How to start a subject.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    program: Vec<std::ffi::OsString>,
}

impl Recipe {
    /// This very program, over our ledger.
    pub(crate) fn ours() -> anyhow::Result<Self> {
        Self::ours_as("worker")
    }

    /// This very program, with a verb that selects its role.
    pub(crate) fn ours_as(verb: &str) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("cannot find this program's own file")?;
        Ok(Self { name: "ours", program: vec![own.into(), verb.into()] })
    }

    /// A peer's program.
    pub(crate) fn peer(program: &Path) -> Self {
        Self { name: "peer", program: vec![program.into()] }
    }

    /// The same, run by another program.
    pub(crate) fn under(&self, words: &[&OsStr]) -> Self {
        let program = words.iter().map(|w| (*w).to_owned()).chain(self.program.clone()).collect();
        Self { name: self.name, program }
    }

    pub(crate) fn start(&self) -> anyhow::Result<Subject> {
        Subject::start(self)
    }
}

/// A running subject; ends when dropped.
#[derive(Debug)]
pub(crate) struct Subject {
    name: &'static str,
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Subject {
    fn start(recipe: &Recipe) -> anyhow::Result<Self> {
        let (program, arguments) = recipe.program.split_first().context("a recipe without a program")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let (commands, answers) = (child.stdin.take(), child.stdout.take());
        let answers = BufReader::new(answers.context("a child without an output")?);
        Ok(Self { name: recipe.name, child, commands, answers })
    }

    /// Sends the command and waits for its result.
    pub(crate) fn ask(&mut self, command: &str) -> anyhow::Result<Answer> {
        self.tell(command)?;
        self.hear(command)
    }

    /// Gives the command, without waiting.
    pub(crate) fn tell(&mut self, command: &str) -> anyhow::Result<()> {
        let to = self.commands.as_mut().context("a child without an input")?;
        writeln!(to, "{command}").with_context(|| format!("cannot tell {} to {command}", self.name))
    }

    /// Waits for the answer to `command`.
    pub(crate) fn hear(&mut self, command: &str) -> anyhow::Result<Answer> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.with_context(|| format!("{} did not answer {command}", self.name))?;
        let answer: Answer = serde_json::from_str(&line)
            .with_context(|| format!("{} answered {command} with {line:?}", self.name))?;
        match &answer.error {
            Some(why) => bail!("{} could not {command}: {why}", self.name),
            None => Ok(answer),
        }
    }

    /// Lets it come to its end by itself.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        self.commands = None;
        let status = self.child.wait().with_context(|| format!("cannot wait for {}", self.name))?;
        if !status.success() {
            bail!("{} ended with {status}", self.name);
        }
        Ok(())
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.commands = None;
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
