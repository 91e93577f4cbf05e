//! Rotation as a kubelet does it, on any runtime: the log is renamed, and the runtime is asked to open it anew.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::files::{self, LogFile, Part, gone};
use super::rotation::LogRotation;
use crate::error::{Error, Result};
use crate::shared::{Shared, blocking};

/// How often logs are looked at while none grows fast.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often while one does, and after a container was started.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// A log grows fast if this share of it comes between two looks.
const FAST: u64 = 16;

/// A container that writes a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    /// The runtime's ID of it.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) attempt: u32,
}

/// Rotates the logs of one pod's containers.
pub(crate) struct Rotator {
    pub(crate) shared: Arc<Shared>,
    /// `namespace/name` of the pod.
    pub(crate) title: String,
    /// The pod's logs, a directory for each container.
    pub(crate) logs: PathBuf,
    /// The containers that run.
    pub(crate) running: watch::Receiver<Vec<Running>>,
}

/// What is known of the log of a container, by its ID.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    size: u64,
    is_fast: bool,
    /// That it cannot be rotated was said.
    has_failed: bool,
}

impl Rotator {
    /// For as long as the pod is looked after.
    pub(crate) async fn run(mut self) {
        let mut known: HashMap<String, Known> = HashMap::new();
        let mut pause = LONGEST_PAUSE;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = self.running.changed() => if changed.is_err() {
                    return;
                },
            }
            let running = self.running.borrow_and_update().clone();
            known.retain(|id, _| running.iter().any(|one| one.id == *id));
            pause = LONGEST_PAUSE.min(pause * 2);
            for one in running {
                let before =
                    known.get(&one.id).copied().unwrap_or(Known { is_fast: true, ..Known::default() });
                let now = self.look(&one, before).await;
                if before.is_fast || now.is_fast {
                    pause = SHORTEST_PAUSE;
                }
                known.insert(one.id, now);
            }
        }
    }

    fn rotation(&self) -> LogRotation {
        self.shared.logs
    }

    /// Rotates the log of a container if it is large enough.
    async fn look(&self, one: &Running, before: Known) -> Known {
        let (dir, attempt, rotation) = (self.logs.join(&one.name), one.attempt, self.rotation());
        let done = match blocking("looking at a log", move || step(&dir, attempt, rotation)).await {
            Ok(Step::Nothing { size }) => {
                let is_fast = size.saturating_sub(before.size) > rotation.max_size.bytes() / FAST;
                return Known { size, is_fast, ..before };
            }
            Ok(Step::Reopen(renamed)) => self.reopen(one, renamed).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => Known { is_fast: true, ..Known::default() },
            Err(error) => {
                if !before.has_failed {
                    self.shared
                        .warn(&self.title, format!("the log of {} cannot be rotated: {error}", one.name));
                }
                Known { has_failed: true, ..before }
            }
        }
    }

    /// If the runtime does not open the log anew, it goes on with the file that it has: that gets its name back.
    async fn reopen(&self, one: &Running, renamed: Option<PathBuf>) -> Result<()> {
        let reopened = self.shared.cri.reopen_log(&one.id).await;
        if let (Err(_), Some(renamed)) = (&reopened, renamed) {
            let current = LogFile::current(one.attempt).path(&self.logs.join(&one.name));
            blocking("naming a log", move || give_back(&renamed, &current)).await?;
        }
        reopened
    }
}

/// What there is to do about a log.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing {
        size: u64,
    },
    /// The runtime is to open its log anew. What that was renamed to, if it was now.
    Reopen(Option<PathBuf>),
}

/// Renames a log that is large enough, and removes the oldest files beyond those that are kept.
fn step(dir: &Path, attempt: u32, rotation: LogRotation) -> Result<Step> {
    let current = LogFile::current(attempt).path(dir);
    let size = match fs::symlink_metadata(&current) {
        Ok(found) => found.len(),
        // A rotation that was cut short: the runtime writes to a file that is renamed already.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let is_cut_short = !rotated(dir, attempt).is_empty();
            return Ok(if is_cut_short { Step::Reopen(None) } else { Step::Nothing { size: 0 } });
        }
        Err(error) => return Err(Error::file("look at", &current)(error)),
    };
    if size < rotation.max_size.bytes() {
        return Ok(Step::Nothing { size });
    }
    let rotated = rotated(dir, attempt);
    // Beside these, the one that is written to now and the one that will be.
    let kept = rotation.max_files.count().saturating_sub(2);
    for number in rotated.iter().rev().skip(kept) {
        let path = LogFile { attempt, part: Part::Rotated(*number) }.path(dir);
        gone(fs::remove_file(&path)).map_err(Error::file("remove", &path))?;
    }
    let number = rotated.last().map_or(1, |last| last.saturating_add(1));
    let renamed = LogFile { attempt, part: Part::Rotated(number) }.path(dir);
    fs::rename(&current, &renamed).map_err(Error::file("rename", &current))?;
    Ok(Step::Reopen(Some(renamed)))
}

/// The numbers of the rotated files, from the oldest.
fn rotated(dir: &Path, attempt: u32) -> Vec<u64> {
    let number = |file: LogFile| match file.part {
        Part::Rotated(number) => Some(number),
        Part::Current => None,
    };
    files::of_attempt(dir, attempt).into_iter().filter_map(number).collect()
}

fn give_back(renamed: &Path, current: &Path) -> Result<()> {
    if current.exists() {
        return Ok(());
    }
    fs::rename(renamed, current).map_err(Error::file("rename", renamed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_is_renamed_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let (log, rotation) = (
            dir.path().join("0.log"),
            LogRotation { max_size: "5".parse().unwrap(), max_files: "3".parse().unwrap() },
        );
        let step = || step(dir.path(), 0, rotation).unwrap();
        assert_eq!(step(), Step::Nothing { size: 0 });
        fs::write(&log, "1234").unwrap();
        assert_eq!(step(), Step::Nothing { size: 4 });
        for number in 1..10 {
            fs::write(&log, format!("log {number}")).unwrap();
            assert_eq!(step(), Step::Reopen(Some(dir.path().join(format!("0.log.{number}")))));
            // As a process does that was killed before it told the runtime.
            assert_eq!(step(), Step::Reopen(None));
        }
        fs::write(&log, "last").unwrap();
        let texts = files::list(dir.path())
            .into_iter()
            .map(|file| fs::read_to_string(file.path(dir.path())).unwrap());
        assert_eq!(texts.collect::<Vec<_>>(), ["log 8", "log 9", "last"]);
    }

    #[test]
    fn a_log_that_the_runtime_keeps_gets_its_name_back() {
        let dir = tempfile::tempdir().unwrap();
        let (renamed, current) = (dir.path().join("0.log.1"), dir.path().join("0.log"));
        fs::write(&renamed, "kept").unwrap();
        give_back(&renamed, &current).unwrap();
        assert_eq!(fs::read_to_string(&current).unwrap(), "kept");
        fs::write(&renamed, "older").unwrap();
        give_back(&renamed, &current).unwrap();
        assert_eq!(fs::read_to_string(&current).unwrap(), "kept");
    }
}
