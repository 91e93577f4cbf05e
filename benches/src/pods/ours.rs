//! `wardlet run`: a process for the pods of one manifest, from nothing; the built-in runtime inside.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

use super::{Hand, Proof};
use crate::memory;
use crate::report::say;

pub(super) const NAME: &str = "wardlet run";

pub(super) struct Ours {
    programs: PathBuf,
    home: tempfile::TempDir,
    network: Network,
    running: Option<Child>,
}

/// A network of its own, kept by a process that does nothing: the host's links and packet filters stay as they are.
struct Network(Child);

impl Network {
    fn new() -> anyhow::Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"]);
        let mut keeper = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut word = [0; 3];
        let up = keeper.stdout.take().is_some_and(|mut said| said.read_exact(&mut word).is_ok());
        let network = Self(keeper);
        if up { Ok(network) } else { bail!("no network of its own") }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Ours {
    pub(super) fn new(programs: &Path) -> anyhow::Result<Self> {
        let programs = fs::canonicalize(programs).context("our programs")?;
        let home = tempfile::Builder::new().prefix("wb").tempdir_in("/var/tmp")?;
        let archive = home.path().join("image.tar");
        let made = Command::new("scripts/busybox-image.sh")
            .arg("localhost/wardlet-bench:1")
            .arg(&archive)
            .status()?;
        let ours = Self { programs, home, network: Network::new()?, running: None };
        let imported =
            ours.wardlet().args(["image", "import"]).arg(&archive).stdout(Stdio::null()).status()?;
        if !made.success() || !imported.success() {
            bail!("the image cannot be made");
        }
        Ok(ours)
    }

    fn wardlet(&self) -> Command {
        let mut command = Command::new(self.programs.join("wardlet"));
        command.arg("--state-dir").arg(self.home.path().join("state")).stdin(Stdio::null());
        command
    }
}

impl Hand for Ours {
    fn name(&self) -> &'static str {
        NAME
    }

    fn start(&mut self, manifest: &str) -> anyhow::Result<()> {
        let path = self.home.path().join("pods.yaml");
        fs::write(&path, manifest)?;
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.network.0.id()));
        command.arg(self.programs.join("wardlet"));
        command.arg("--state-dir").arg(self.home.path().join("state"));
        command.arg("run").arg("--run-dir").arg(self.home.path().join("run")).arg(&path);
        let words = fs::File::create(self.home.path().join("words"))?;
        self.running = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(words).spawn()?);
        Ok(())
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        let Some(child) = &self.running else { return Ok(()) };
        let told = Command::new("kill").arg("-INT").arg(child.id().to_string()).status()?;
        if !told.success() {
            let words = fs::read_to_string(self.home.path().join("words")).unwrap_or_default();
            bail!("it has ended before it was stopped: {words}");
        }
        Ok(())
    }

    fn rest(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.running.take() {
            child.wait()?;
        }
        Ok(())
    }

    fn prove(&self) -> anyhow::Result<Option<Proof>> {
        let socket = format!("unix://{}", self.home.path().join("run/cri.sock").display());
        let began = Instant::now();
        let output = self.wardlet().args(["verify", "--runtime-endpoint", &socket]).output()?;
        let took = began.elapsed();
        match output.status.code() {
            Some(0) => Ok(Some(Proof { took, answer: "holds" })),
            // Pods of others on this machine can make this fail: that is a result, too, and the output has to say why.
            Some(1) => {
                say(&String::from_utf8_lossy(&output.stdout));
                Ok(Some(Proof { took, answer: "does not hold" }))
            }
            _ => bail!("verify: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    fn serves(&self, pid: u32) -> bool {
        memory::executable(pid).is_some_and(|path| path.starts_with(&self.programs))
            && memory::command_line(pid).contains(&*self.home.path().to_string_lossy())
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if self.running.is_some() && self.stop().is_ok() {
            let _ = self.rest();
        }
    }
}
