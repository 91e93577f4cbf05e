//! `podman kube play`, driven by a script that knows how to make it work here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

use super::Hand;
use crate::memory;
use crate::report::say;

/// A script that knows `usable`, `start`, `stop` and `leave`, each with the manifest. Whatever came of the rest,
/// `leave` takes away all that is left.
pub(super) struct Podman {
    script: PathBuf,
    scratch: tempfile::TempDir,
    at_work: Option<Child>,
}

impl Podman {
    pub(super) fn new(script: &Path) -> anyhow::Result<Self> {
        let scratch = tempfile::Builder::new().prefix("wb").tempdir_in("/var/tmp")?;
        // From here on, whatever happens, `podman kube down` is run.
        let podman = Self { script: fs::canonicalize(script)?, scratch, at_work: None };
        let said = podman.command("usable").output()?;
        if said.status.success() {
            return Ok(podman);
        }
        let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        bail!("{}", why.lines().last().unwrap_or("without a word"))
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.script);
        command.arg(verb).arg(self.scratch.path().join("pods.yaml")).stdin(Stdio::null());
        command.env("WARDLET_BENCH_PODMAN", self.home());
        command
    }

    fn home(&self) -> PathBuf {
        self.scratch.path().join("podman")
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let Some(child) = self.at_work.take() else { return Ok(()) };
        let output = child.wait_with_output()?;
        if output.status.success() {
            return Ok(());
        }
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim())
    }
}

impl Hand for Podman {
    fn name(&self) -> &'static str {
        "podman kube play"
    }

    fn start(&mut self, manifest: &str) -> anyhow::Result<()> {
        fs::write(self.scratch.path().join("pods.yaml"), manifest)?;
        self.at_work = Some(self.command("start").stderr(Stdio::piped()).spawn()?);
        Ok(())
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        self.finish().context("start")?;
        self.at_work = Some(self.command("stop").stderr(Stdio::piped()).spawn()?);
        Ok(())
    }

    fn rest(&mut self) -> anyhow::Result<()> {
        self.finish().context("stop")
    }

    fn serves(&self, pid: u32) -> bool {
        let home = self.home();
        let named = memory::command_line(pid).contains(&*home.to_string_lossy());
        // What holds the pod's namespaces names nothing: it is known by its files.
        named
            || memory::parent_of(pid).is_some_and(|parent| {
                memory::command_line(parent).contains(&*home.to_string_lossy())
                    && memory::executable(pid)
                        .is_some_and(|path| path.ends_with("catatonit") || path.ends_with("pause"))
            })
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.finish();
        match self.command("leave").output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                say(&format!("warning: podman: {}", String::from_utf8_lossy(&output.stderr).trim()))
            }
            Err(why) => say(&format!("warning: podman: {why}")),
        }
    }
}
