//! What `wardlet-oci` adds to a call of the runtime: nothing asked for, the first container of a pod with a user
//! namespace, and another one that joins it.
//!
//! The runtime is a stand-in that ends at once, called straight and through the wrapper in turn: what is left of
//! the difference is ours. As a runtime does, it leaves a process behind that has the container's files: else
//! they would go with it, and the kernel would write out the whole filesystem below them before the call ends.
//! Files, mounts, namespaces and leases are real, and so is the pod that is joined.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::dice::Dice;
use crate::measure::{Goal, Measure, Side};
use crate::report::{Report, say};
use crate::subject::Answer;
use crate::wrapper_scene::Scene;

/// What a round needs.
pub(crate) struct Wrappers<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) samples: usize,
}

const NOISE: &str = "the runtime alone, against itself";

/// What is asked of the wrapper, and how much longer it may take.
const CASES: [(&str, Case, u64); 5] = [
    ("wrapper adds to a call that is none of its business", Case::State, 1),
    ("wrapper adds to a create that asks for nothing", Case::Plain, 1),
    ("wrapper adds to a container that joins its pod", Case::Joining, 3),
    ("wrapper adds to a pod's first container", Case::Alone, 5),
    ("wrapper adds to one within a second of another", Case::First, 5),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    State,
    Plain,
    Joining,
    /// The first container of a pod, at least a second after the last such one.
    Alone,
    /// The same, when what the host looks like is known from the last one.
    First,
    /// The pod that is joined; it is not measured.
    Joined,
}

impl Wrappers<'_> {
    pub(crate) fn run(&self, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
        say("wrapper: making a pod to join");
        let inside = kernel::in_private_mount_namespace(|_| self.measure(dice, report));
        inside.context("a mount namespace")?
    }

    fn measure(&self, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
        let scene = Scene::make(self.dir)?;
        // How far two calls differ that are the same: what of the rest is the machine's.
        let mut noise = Side::default();
        for number in 0..=self.samples {
            let (one, other) = (scene.straight(Case::Plain, number)?, scene.straight(Case::Plain, number)?);
            if number > 0 {
                noise.add(&answer(one.abs_diff(other)));
            }
        }
        report.measures.push(Measure::new(NOISE, (Some(noise), None), None, dice));
        for (name, case, milliseconds) in CASES {
            let mut added = Side::default();
            for number in 0..=self.samples {
                let ours_first = dice.heads();
                let early = if ours_first { None } else { Some(scene.straight(case, number)?) };
                let ours = scene.wrapped(case, number)?;
                let straight = early.map_or_else(|| scene.straight(case, number), Ok)?;
                // What is done for the first time only is not what is measured.
                if number > 0 {
                    added.add(&answer(ours.saturating_sub(straight)));
                }
            }
            let goal = Goal::Typical(Duration::from_millis(milliseconds));
            report.measures.push(Measure::new(name, (Some(added), None), Some(goal), dice));
        }
        Ok(())
    }
}

fn answer(took: Duration) -> Answer {
    let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    Answer { wall_ns: ns, ns: vec![ns], ..Answer::default() }
}

/// Runs a command to its end; how long that took.
pub(crate) fn timed(command: &mut Command) -> anyhow::Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let began = Instant::now();
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let took = began.elapsed();
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(took)
}

/// The program that is measured: beside this one, as `make bench` builds it.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let program = own.with_file_name("wardlet-oci");
    if !program.is_file() {
        bail!("{} is not there: make build", program.display());
    }
    Ok(program)
}

/// A runtime that says that it is runc, and makes a process and nothing else. That one waits for somebody to write to a pipe,
/// which nobody does: a program of its own would begin just when the runtime ends, and on two processors sometimes beside it and
/// sometimes before it.
pub(crate) fn stand_in(path: &Path) -> anyhow::Result<()> {
    let pipe = path.with_extension("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).context("a pipe to wait at")?;
    let text = format!(
        "#!/bin/sh\n\
        [ \"$1\" = --version ] && echo runc version 1.3.0\n\
        [ \"$3\" = create ] && {{ (exec >/dev/null 2>&1; read nothing <{}) & echo $! > \"$7\"; }}\n\
        exit 0\n",
        pipe.display()
    );
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}
