//! A build of wardlet, and its commands run over one input.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::difference::Observed;
use crate::files;
use crate::manifests::Case;
use crate::mask::Mask;
use crate::shape::{self, Values};

/// The programs of a build.
const PROGRAMS: [&str; 4] = ["wardlet", "wardlet-oci", "wardlet-monitor", "wardlet-container"];
/// Host IDs that the builds may lease: the same for both, and not those of another node on this machine.
pub(crate) const POOL: &str =
    "userNamespaces: {quarantineSeconds: 3600, pool: {uids: [\"2415919104-2432696319\"]}}\n";
/// In seconds; a command that takes longer has exit code 124.
const DEADLINE: &str = "300";

/// A directory for this run, removed in the end. On a filesystem that can be idmapped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn make() -> anyhow::Result<Self> {
        let path = PathBuf::from(format!("/var/tmp/wardlet-compare-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o711))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if mounts.contains(&format!(" {}/", self.0.display())) {
            eprintln!("warning: something is still mounted below {}; it stays", self.0.display());
        } else if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("warning: cannot remove {}: {error}", self.0.display());
        }
    }
}

/// One of the two builds.
pub(crate) struct Build {
    pub(crate) programs: PathBuf,
    /// Its state, configuration and results. Paths of both builds have the same length.
    node: PathBuf,
    pub(crate) mask: Mask,
}

impl Build {
    pub(crate) fn open(name: &str, programs: &Path, scratch: &Scratch) -> anyhow::Result<Self> {
        let programs =
            programs.canonicalize().with_context(|| format!("cannot find {}", programs.display()))?;
        for program in PROGRAMS {
            ensure!(programs.join(program).is_file(), "{} has no {program}", programs.display());
        }
        let node = scratch.path(name);
        fs::create_dir(&node)?;
        fs::write(node.join("config.yaml"), POOL)?;
        let mask = Mask::default()
            .replacing(&node, "$NODE")
            .replacing(&scratch.0, "$SCRATCH")
            .replacing(&programs, "$PROGRAMS");
        Ok(Self { programs, node, mask })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.node.join(name)
    }

    /// `wardlet` with a configuration and a state directory of this build's own.
    pub(crate) fn wardlet(&self) -> Command {
        self.wardlet_at(&self.path("state"))
    }

    pub(crate) fn wardlet_at(&self, state: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.arg(DEADLINE).arg(self.programs.join("wardlet"));
        command.arg("--state-dir").arg(state).arg("--config").arg(self.path("config.yaml"));
        command.stdin(Stdio::null());
        command
    }

    /// What `explain` and `check` answer to a manifest.
    pub(crate) fn answers(&self, case: &Case) -> anyhow::Result<Vec<Observed>> {
        let mut seen = Vec::new();
        let output = run(self.wardlet().args(["explain", "-o", "json"]).args(&case.explain).arg(&case.file))?;
        seen.push(exit_code("explain exit code", &output));
        seen.push(self.json("explain", &output));

        let patches = self.path("patches");
        let mut check = self.wardlet();
        check.args(["check", "-o", "json"]).args(&case.check).arg("--write-patches").arg(&patches);
        let output = run(check.arg(&case.file))?;
        seen.push(exit_code("check exit code", &output));
        seen.push(self.json("check", &output));
        seen.push(Observed { subject: "check patches", lines: self.patches(&patches)? });

        let output = run(self.wardlet().args(["check", "-o", "sarif"]).args(&case.check).arg(&case.file))?;
        seen.push(exit_code("check sarif exit code", &output));
        seen.push(self.json("check sarif", &output));
        let output = run(self.wardlet().args(["check", "-o", "junit"]).args(&case.check).arg(&case.file))?;
        seen.push(exit_code("check junit exit code", &output));
        let lines = shape::xml(&String::from_utf8_lossy(&output.stdout), &self.mask);
        seen.push(Observed { subject: "check junit", lines });
        Ok(seen)
    }

    /// An answer in JSON.
    pub(crate) fn json(&self, subject: &'static str, output: &Output) -> Observed {
        let lines = match serde_json::from_slice::<Value>(&output.stdout) {
            Ok(document) => shape::json(&document, Values::Compared, &self.mask),
            Err(_) if output.stdout.is_empty() => vec![],
            Err(_) => vec!["not JSON".to_owned()],
        };
        Observed { subject, lines }
    }

    /// The patches that were written, removed.
    fn patches(&self, directory: &Path) -> anyhow::Result<Vec<String>> {
        let lines = files::listed(directory, &self.mask)?;
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        Ok(lines)
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<Output> {
    command.output().with_context(|| format!("cannot run {command:?}"))
}

pub(crate) fn exit_code(subject: &'static str, output: &Output) -> Observed {
    Observed { subject, lines: vec![output.status.to_string()] }
}
