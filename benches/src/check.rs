//! `wardlet check` as users run it: ours alone, the whole program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::dice::Dice;
use crate::manifests;
use crate::measure::{Goal, Measure, Side, Sides};
use crate::report::{Report, say};
use crate::subject::Answer;

const MANIFESTS: usize = 10_000;
const TIMES: usize = 10;
const GOAL: Duration = Duration::from_secs(3);

pub(crate) fn run(dir: &Path, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
    let program = program()?;
    say(&format!("checking {MANIFESTS} manifests"));
    let scratch = tempfile::tempdir_in(dir)?;
    for number in 0..MANIFESTS {
        std::fs::write(scratch.path().join(format!("{number}.yaml")), manifests::text(number))?;
    }
    let mut ours = Side::default();
    for _ in 0..TIMES {
        let began = Instant::now();
        check(&program, scratch.path())?;
        let ns = u64::try_from(began.elapsed().as_nanos())?;
        ours.add(&Answer { wall_ns: ns, ns: vec![ns], ..Answer::default() });
    }
    let what = format!("check of {MANIFESTS} manifests");
    report.measures.push(Measure::new(&what, Sides::only_ours(ours), Some(Goal::P99(GOAL)), dice));
    Ok(())
}

/// The program that was built along with this one.
fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.with_file_name("wardlet");
    if !program.exists() {
        bail!("{} is not there: build it with cargo build --release -p wardlet", program.display());
    }
    Ok(program)
}

fn check(program: &Path, dir: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command.arg("check").arg(dir).args(["-o", "json", "--gate"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().with_context(|| program.display().to_string())?;
    if !status.success() {
        bail!("{} ended with {status}", program.display());
    }
    Ok(())
}
