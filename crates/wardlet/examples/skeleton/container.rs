use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kernel::interrupt;
use serde_json::Value;

use crate::script::{END, Inside};
use crate::words::say;

/// Far more than a start or an end takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const GLANCE: Duration = Duration::from_millis(5);

/// A container under `runc run`. Ended, by force if need be, when dropped.
///
/// It lives until its input ends, and we hold the other end: if we are killed, it ends by itself, and
/// runc, which is not killed with us, cleans up after it.
pub(crate) struct Container {
    name: String,
    runc: PathBuf,
    scratch: PathBuf,
    process: Child,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
}

impl Container {
    /// Starts it in the mount namespace of the calling thread.
    pub(crate) fn start(runc: &Path, scratch: &Path, name: &str, config: &Value) -> anyhow::Result<Self> {
        let file = scratch.join("config.json");
        fs::write(&file, format!("{config:#}"))
            .with_context(|| format!("cannot write {}", file.display()))?;
        let errors = File::create(scratch.join("errors")).context("cannot make a file for runc's errors")?;
        let mut process = command(runc, scratch)
            .arg("run")
            .arg("--bundle")
            .arg(scratch)
            .arg("--pid-file")
            .arg(scratch.join("pid"))
            .arg(name)
            // None of the three is a terminal: runc gives them to the container's user.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            // Ctrl-C is for us; we end the container in order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run {}", runc.display()))?;
        Ok(Self {
            name: name.to_owned(),
            runc: runc.to_owned(),
            scratch: scratch.to_owned(),
            input: process.stdin.take(),
            output: process.stdout.take(),
            process,
        })
    }

    /// What it has to tell; it goes on living.
    pub(crate) fn listen(&mut self) -> anyhow::Result<Inside> {
        let mut output = self.output.take().context("the container has told all")?;
        let (mut told, mut chunk) = (String::new(), [0u8; 4096]);
        while told.lines().next_back() != Some(END) {
            wait_readable(&output)?;
            match output.read(&mut chunk) {
                Ok(0) => bail!("the container ended too early: {}", self.complaint(&told)),
                Ok(length) => {
                    told.push_str(&String::from_utf8_lossy(chunk.get(..length).unwrap_or_default()))
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot read what the container tells"),
            }
        }
        self.output = Some(output);
        Ok(Inside::parse(&told))
    }

    /// The host's process ID of its first process.
    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        let file = self.scratch.join("pid");
        let deadline = Instant::now() + PATIENCE;
        // runc writes it in one piece, but only after the container has started.
        while !file.exists() && Instant::now() < deadline {
            stop_if_asked()?;
            sleep(GLANCE);
        }
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        text.trim().parse().with_context(|| format!("{}: {text:?} is no process ID", file.display()))
    }

    /// Lets it end by itself, and runc with it.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.input.take();
        match self.wait()? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("runc: {status}: {}", self.complaint("")),
            None => bail!("the container did not end within {} s", PATIENCE.as_secs()),
        }
    }

    fn wait(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.process.try_wait().context("cannot wait for runc")?;
            if status.is_some() || Instant::now() > deadline {
                return Ok(status);
            }
            sleep(GLANCE);
        }
    }

    /// The last words of runc and of the container, on one line.
    fn complaint(&self, told: &str) -> String {
        let errors = fs::read_to_string(self.scratch.join("errors")).unwrap_or_default();
        let words: Vec<&str> = errors.lines().chain(told.lines()).filter(|line| !line.is_empty()).collect();
        if words.is_empty() { "it said nothing".to_owned() } else { words.join("; ") }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.input.take();
        if !matches!(self.process.try_wait(), Ok(Some(_))) {
            let delete = command(&self.runc, &self.scratch).args(["delete", "--force", &self.name]).output();
            if let Err(error) = delete {
                say(&format!("cannot delete container {}: {error}", self.name));
            }
        }
        if !matches!(self.wait(), Ok(Some(_))) {
            say(&format!("runc, process {}, did not end and is killed", self.process.id()));
            let _ = self.process.kill().and_then(|()| self.process.wait());
        }
    }
}

/// An error if somebody asked us to end.
fn stop_if_asked() -> anyhow::Result<()> {
    if interrupt::asked() { bail!("interrupted") } else { Ok(()) }
}

/// Waits for input; an error if somebody asks us to end meanwhile.
pub(crate) fn wait_readable(input: impl AsFd) -> anyhow::Result<()> {
    interrupt::wait_readable(input)?;
    stop_if_asked()
}

fn command(runc: &Path, scratch: &Path) -> Command {
    let mut command = Command::new(runc);
    command.arg("--root").arg(scratch.join("state"));
    command
}
