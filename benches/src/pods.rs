//! How long a pod takes from the word to running, and from the word to gone, on whatever can be driven by
//! commands.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::dice::Dice;
use crate::measure::{Measure, Side};
use crate::report::{Report, say};
use crate::subject::Answer;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What a round of pod starts needs.
pub(crate) struct Pods<'a> {
    pub(crate) manifest: &'a Path,
    pub(crate) samples: usize,
}

/// A peer, and what it took so far.
struct Driven<'a> {
    driver: Driver<'a>,
    starts: Side,
    stops: Side,
}

impl Pods<'_> {
    /// Measures all drivers in turn, another one first each round. One that cannot be used here is noted.
    pub(crate) fn run(
        &self,
        drivers: &[PathBuf],
        dice: &mut Dice,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let mut used = Vec::new();
        for program in drivers {
            let driver = Driver { program, manifest: self.manifest };
            say(&format!("pods, start and stop: trying {}", driver.name()));
            // From here on, whatever happens, it is told to leave.
            let driven = Driven { driver, starts: Side::default(), stops: Side::default() };
            match driver.tell("usable") {
                Ok(said) => {
                    report.notes.extend(Some(said).filter(|s| !s.is_empty()));
                    used.push(driven);
                }
                Err(why) => report.notes.push(format!("{} cannot be measured here: {why:#}", driver.name())),
            }
        }
        for _ in 0..self.samples {
            let first = dice.below(used.len());
            used.rotate_left(first);
            used.iter_mut().try_for_each(Driven::round)?;
        }
        for mut driven in used {
            let sides =
                [("start", std::mem::take(&mut driven.starts)), ("stop", std::mem::take(&mut driven.stops))];
            for (what, side) in sides {
                let name = format!("pod {what}, {}", driven.driver.name());
                report.measures.push(Measure::new(&name, (None, Some(side)), None, dice));
            }
        }
        Ok(())
    }
}

impl Driven<'_> {
    fn round(&mut self) -> anyhow::Result<()> {
        self.starts.add(&self.driver.until("start", "running")?);
        self.stops.add(&self.driver.until("stop", "gone")?);
        Ok(())
    }
}

/// A program that knows a peer: called with `usable`, `start`, `running`, `stop`, `gone` or `leave`, and the
/// manifest. Whatever came of the rest, `leave` takes away all that is left.
#[derive(Clone, Copy)]
struct Driver<'a> {
    program: &'a Path,
    manifest: &'a Path,
}

impl Driver<'_> {
    fn name(&self) -> String {
        self.program.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
    }

    /// Calls it; what it prints, if it succeeds, is worth a note.
    fn tell(&self, verb: &str) -> anyhow::Result<String> {
        let output = Command::new(self.program).arg(verb).arg(self.manifest).stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("cannot start {}", self.program.display()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("{} failed: {}", verb, said.lines().last().unwrap_or("without a word"))
    }

    /// Gives the word, and looks until it has come true.
    fn until(&self, word: &str, done: &str) -> anyhow::Result<Answer> {
        let began = Instant::now();
        self.tell(word).with_context(|| self.name())?;
        while self.tell(done).is_err() {
            if began.elapsed() > PATIENCE {
                bail!("{}: not {done} within {PATIENCE:?} of {word}", self.name());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(Answer { wall_ns: ns, ns: vec![ns], ..Answer::default() })
    }
}

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        if let Err(why) = self.driver.tell("leave") {
            say(&format!("warning: {}: {why:#}", self.driver.name()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A peer whose pod is a file that appears a while after the word.
    fn script(dir: &Path, usable: &str) -> PathBuf {
        let path = dir.join("script.sh");
        let text = format!(
            "#!/bin/sh\ncase $1 in\n usable) {usable};;\n start) (sleep 0.2; touch $2) >/dev/null 2>&1 & ;;\n \
             running) test -e $2;;\n stop) rm $2;;\n gone) test ! -e $2;;\n leave) touch $2.left;;\nesac\n"
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_pod_counts_as_started_only_once_it_is_seen_running() {
        let dir = tempfile::tempdir().unwrap();
        let (program, manifest) = (script(dir.path(), "true"), dir.path().join("pod"));
        let driver = Driver { program: &program, manifest: &manifest };
        assert!(driver.until("start", "running").unwrap().wall_ns >= 200_000_000);
        driver.until("stop", "gone").unwrap();
        assert!(!manifest.exists());
    }

    #[test]
    fn a_peer_that_cannot_be_used_says_why_and_one_that_was_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let (program, manifest) = (script(dir.path(), "echo no cgroups >&2; exit 1"), dir.path().join("pod"));
        let driver = Driver { program: &program, manifest: &manifest };
        assert_eq!(driver.tell("usable").unwrap_err().to_string(), "usable failed: no cgroups");
        drop(Driven { driver, starts: Side::default(), stops: Side::default() });
        assert!(dir.path().join("pod.left").exists());
    }
}
