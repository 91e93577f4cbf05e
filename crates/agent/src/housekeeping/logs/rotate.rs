//! Log rotation as in the kubelet: the log is renamed, and the runtime reopens it (ReopenContainerLog). Then all rotated logs but
//! the newest are compressed, while rotation goes on.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{Span, warn};

use super::compress::{compress_rotated, longest};
use super::dir::LogDir;
use super::files::{LogFile, Part, Stamp, now};
use super::rotation::{LogRotation, RotatedLogs};
use crate::error::{Error, Result};
use crate::shared::{Shared, blocking};

/// Period of checks while a log grows fast, and after the start of a container.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// A log grows fast if it grows by this fraction of the maximum size between two checks.
const FAST: u64 = 16;

/// A container that writes a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    /// The runtime's ID of the container.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) attempt: u32,
}

/// Rotates the logs of one pod's containers.
pub(crate) struct Rotator {
    pub(crate) shared: Arc<Shared>,
    /// The tracing span of the pod.
    pub(crate) span: Span,
    /// The pod's log directory, with a directory for each container.
    pub(crate) logs: PathBuf,
    /// The containers that run.
    pub(crate) running: watch::Receiver<Vec<Running>>,
}

/// What the last check found out about the log of a container.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    size: u64,
    is_fast: bool,
    /// Whether it was rotated.
    is_rotated: bool,
    /// Whether a failed rotation has been logged.
    has_failed: bool,
    /// After a failure: when the log is checked again.
    retry: Option<Instant>,
}

impl Known {
    /// The last check has failed. However fast the log grew, and however often other logs are checked, this one is not before
    /// `retry`.
    fn failed(self, retry: Instant) -> Self {
        Self { is_fast: false, is_rotated: false, has_failed: true, retry: Some(retry), ..self }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.retry.is_none_or(|retry| now >= retry)
    }
}

impl Rotator {
    /// Rotates until the pod's worker has ended.
    pub(crate) async fn run(mut self) {
        let mut known: HashMap<String, Known> = HashMap::new();
        let mut compressing: HashMap<String, JoinHandle<()>> = HashMap::new();
        let longest = self.shared.log_workers.interval;
        let mut pause = longest;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = self.running.changed() => if changed.is_err() {
                    return;
                },
            }
            let running = self.running.borrow_and_update().clone();
            known.retain(|id, _| running.iter().any(|one| one.id == *id));
            compressing.retain(|_, task| !task.is_finished());
            pause = longest.min(pause * 2);
            for one in running {
                let before =
                    known.get(&one.id).copied().unwrap_or(Known { is_fast: true, ..Known::default() });
                if !before.is_due(Instant::now()) {
                    continue;
                }
                let now = self.look(&one, before).await;
                // What is rotated meanwhile is compressed after the next rotation.
                if now.is_rotated && !compressing.contains_key(&one.id) {
                    compressing.extend(self.compress(&one).map(|task| (one.id.clone(), task)));
                }
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

    /// Checks the log of a container, and rotates it if it is large enough.
    async fn look(&self, one: &Running, before: Known) -> Known {
        let (dir, attempt, rotation) = (self.logs.join(&one.name), one.attempt, self.rotation());
        let done = match blocking("looking at a log", move || step(&dir, attempt, rotation)).await {
            Ok(Step::Nothing { size }) => {
                let is_fast = size.saturating_sub(before.size) > rotation.max_size.bytes() / FAST;
                return Known { size, is_fast, is_rotated: false, retry: None, ..before };
            }
            Ok(Step::Reopen(renamed)) => self.reopen(one, renamed).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => Known { is_fast: true, is_rotated: true, ..Known::default() },
            Err(error) => {
                if !before.has_failed {
                    let container = one.name.as_str();
                    warn!(parent: &self.span, container, "the log of {container} cannot be rotated: {error}");
                }
                before.failed(Instant::now() + self.shared.log_workers.interval)
            }
        }
    }

    /// Compresses the rotated logs of a container by a task, where they are compressed: as many at once as the node has workers.
    fn compress(&self, one: &Running) -> Option<JoinHandle<()>> {
        let LogRotation { max_size, names, .. } = self.rotation();
        if names != RotatedLogs::OfKubelet {
            return None;
        }
        let (shared, span) = (Arc::clone(&self.shared), self.span.clone());
        let (dir, attempt, container) = (self.logs.join(&one.name), one.attempt, one.name.clone());
        Some(tokio::spawn(async move {
            let _place = shared.log_workers.place().await;
            let work = move || {
                compress_rotated(&dir, attempt, longest(max_size))
                    .map_err(Error::file("compress logs in", &dir))
            };
            if let Err(error) = blocking("compressing logs", work).await {
                let container = container.as_str();
                warn!(parent: &span, container, "rotated logs of {container} are not compressed: {error}");
            }
        }))
    }

    /// Makes the runtime reopen the log. If that fails, the runtime still writes to the renamed file, which
    /// gets its old name back.
    async fn reopen(&self, one: &Running, renamed: Option<LogFile>) -> Result<()> {
        let reopened = self.shared.cri.reopen_log(&one.id).await;
        if let (Err(_), Some(renamed)) = (&reopened, renamed) {
            let dir = self.logs.join(&one.name);
            blocking("naming a log", move || give_back(&dir, renamed)).await?;
        }
        reopened
    }
}

/// The next step of a rotation.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing {
        size: u64,
    },
    /// The runtime must reopen its log; with the renamed file, if this check renamed it.
    Reopen(Option<LogFile>),
}

/// Renames a log that is large enough, and removes the oldest files in excess of the maximum.
fn step(path: &Path, attempt: u32, rotation: LogRotation) -> Result<Step> {
    let current = LogFile::current(attempt);
    let failed = |what, log: LogFile| Error::file(what, &path.join(log.name()));
    let dir = LogDir::open(path).map_err(Error::file("open", path))?;
    let rotated = rotated(&dir, attempt).map_err(Error::file("read", path))?;
    let Some(found) = dir.stat(current).map_err(failed("look at", current))? else {
        // A rotation was interrupted: the runtime writes to a file that is already renamed. Or the log was removed by hand.
        let is_lost = !rotated.is_empty() || rotation.names == RotatedLogs::OfKubelet;
        return Ok(if is_lost { Step::Reopen(None) } else { Step::Nothing { size: 0 } });
    };
    let size = u64::try_from(found.st_size).unwrap_or(0);
    if size < rotation.max_size.bytes() {
        return Ok(Step::Nothing { size });
    }
    // In addition to these there are the file that is renamed now and the one that the runtime creates.
    let kept = rotation.max_files.count().saturating_sub(2);
    for part in rotated.iter().rev().skip(kept) {
        let log = LogFile { attempt, part: *part };
        dir.remove(log).map_err(failed("remove", log))?;
    }
    let renamed = LogFile { attempt, part: next(rotation.names, rotated.last().copied(), now()) };
    dir.rename(current, renamed).map_err(failed("rename", current))?;
    Ok(Step::Reopen(Some(renamed)))
}

/// What the next rotated file is called, after the last one.
fn next(names: RotatedLogs, last: Option<Part>, seconds: u64) -> Part {
    match names {
        RotatedLogs::Numbered => match last {
            Some(Part::Rotated(number)) => Part::Rotated(number.saturating_add(1)),
            _ => Part::Rotated(1),
        },
        RotatedLogs::OfKubelet => {
            let now = Stamp::at(seconds);
            // No name is used twice, also if the clock was set back.
            let at = match last {
                Some(Part::Dated { at, .. }) if at >= now => at.next(),
                _ => now,
            };
            Part::Dated { at, is_compressed: false }
        }
    }
}

/// The rotated files, oldest first. One that is being compressed is counted once.
fn rotated(dir: &LogDir, attempt: u32) -> io::Result<Vec<Part>> {
    let own = dir.named()?.into_iter().map(|found| found.log).filter(|log| log.attempt == attempt);
    let mut parts: Vec<Part> = own.map(|log| log.part).filter(|part| *part != Part::Current).collect();
    parts.dedup_by(|later, earlier| match (later, earlier) {
        (Part::Dated { at, .. }, Part::Dated { at: other, .. }) => at == other,
        _ => false,
    });
    Ok(parts)
}

fn give_back(path: &Path, renamed: LogFile) -> Result<()> {
    let current = LogFile::current(renamed.attempt);
    let given = LogDir::open(path).and_then(|dir| match dir.stat(current)? {
        Some(_) => Ok(()),
        None => dir.rename(renamed, current),
    });
    given.map_err(Error::file("rename", &path.join(renamed.name())))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_full_log_is_renamed_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let (log, rotation) = (
            dir.path().join("0.log"),
            LogRotation {
                max_size: "5".parse().unwrap(),
                max_files: "3".parse().unwrap(),
                names: RotatedLogs::Numbered,
            },
        );
        let step = || step(dir.path(), 0, rotation).unwrap();
        assert_eq!(step(), Step::Nothing { size: 0 });
        fs::write(&log, "1234").unwrap();
        assert_eq!(step(), Step::Nothing { size: 4 });
        for number in 1..10 {
            fs::write(&log, format!("log {number}")).unwrap();
            let part = Part::Rotated(number);
            assert_eq!(step(), Step::Reopen(Some(LogFile { attempt: 0, part })));
            // As after a process was killed before its request to the runtime.
            assert_eq!(step(), Step::Reopen(None));
        }
        fs::write(&log, "last").unwrap();
        let logs = LogDir::open(dir.path()).unwrap().logs().unwrap();
        let texts = logs.into_iter().map(|log| fs::read_to_string(dir.path().join(log.name())).unwrap());
        assert_eq!(texts.collect::<Vec<_>>(), ["log 8", "log 9", "last"]);
    }

    #[test]
    fn on_a_node_rotated_files_are_dated_and_all_but_the_newest_compressed() {
        let dir = tempfile::tempdir().unwrap();
        let rotation = LogRotation {
            max_size: "5".parse().unwrap(),
            max_files: "4".parse().unwrap(),
            names: RotatedLogs::OfKubelet,
        };
        let step = || step(dir.path(), 0, rotation).unwrap();
        assert_eq!(step(), Step::Reopen(None), "the log was removed by hand");
        for number in 1..7 {
            fs::write(dir.path().join("0.log"), format!("log {number}")).unwrap();
            let Step::Reopen(Some(renamed)) = step() else { panic!() };
            assert!(matches!(renamed.part, Part::Dated { is_compressed: false, .. }));
            compress_rotated(dir.path(), 0, longest(rotation.max_size)).unwrap();
        }
        let logs = LogDir::open(dir.path()).unwrap().logs().unwrap();
        assert_eq!(logs.iter().map(|log| log.is_text()).collect::<Vec<_>>(), [false, false, true]);
        let newest = fs::read_to_string(dir.path().join(logs[2].name())).unwrap();
        assert_eq!(newest, "log 6");
    }

    /// A log that could not be rotated was tried twenty times a second for as long as its container ran.
    #[tokio::test(start_paused = true)]
    async fn a_log_that_cannot_be_rotated_is_tried_again_after_the_interval() {
        let now = Instant::now();
        let interval = Duration::from_secs(10);
        let before = Known { size: 7, is_fast: true, ..Known::default() };
        assert!(before.is_due(now));
        let failed = before.failed(now + interval);
        assert!(!failed.is_fast && failed.has_failed && failed.size == 7);
        assert!(!failed.is_due(now + interval / 2) && failed.is_due(now + interval));
    }

    #[test]
    fn no_name_of_a_rotated_file_is_used_twice() {
        let part = |at: Stamp| Part::Dated { at, is_compressed: false };
        let (names, now) = (RotatedLogs::OfKubelet, Stamp::at(1000));
        assert_eq!(next(names, None, 1000), part(now));
        assert_eq!(next(names, Some(part(now)), 1000), part(now.next()));
        assert_eq!(next(names, Some(part(now.next())), 10), part(now.next().next()));
        // What an agent without these names has left is older.
        assert_eq!(next(names, Some(Part::Rotated(7)), 1000), part(now));
    }

    #[test]
    fn a_log_that_the_runtime_keeps_gets_its_name_back() {
        let dir = tempfile::tempdir().unwrap();
        let (renamed, current) = (dir.path().join("0.log.1"), dir.path().join("0.log"));
        let log = LogFile { attempt: 0, part: Part::Rotated(1) };
        fs::write(&renamed, "kept").unwrap();
        give_back(dir.path(), log).unwrap();
        assert_eq!(fs::read_to_string(&current).unwrap(), "kept");
        fs::write(&renamed, "older").unwrap();
        give_back(dir.path(), log).unwrap();
        assert_eq!(fs::read_to_string(&current).unwrap(), "kept");
    }
    /// A pod that could write to its log directory made root rename and remove files of the host.
    #[test]
    fn no_log_is_rotated_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::create_dir(&victim).unwrap();
        ["0.log", "0.log.7", "0.log.8"].iter().for_each(|name| fs::write(victim.join(name), "kept").unwrap());
        let linked = dir.path().join("main");
        std::os::unix::fs::symlink(&victim, &linked).unwrap();
        let rotation = LogRotation {
            max_size: "1".parse().unwrap(),
            max_files: "2".parse().unwrap(),
            names: RotatedLogs::Numbered,
        };
        assert!(step(&linked, 0, rotation).is_err());
        assert!(give_back(&linked, LogFile { attempt: 1, part: Part::Rotated(7) }).is_err());
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 3);
        assert!(matches!(step(&victim, 0, rotation), Ok(Step::Reopen(Some(_)))));
    }
}
