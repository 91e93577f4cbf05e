//! The state of each file of a source of pods.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use manifest::{Finding, Object};
use plan::Gates;
use tokio::time::Instant;

use crate::sources::open::{Content, Stamp, read_complete};

/// A file that has not changed for so long is complete, unless a process has it open for writing.
pub(super) const SETTLED: Duration = Duration::from_millis(100);
/// Time after which a file that is still being written is reported. Where it cannot be known whether a process
/// has it open, a file that has not changed for so long is complete.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Why a file keeps its previous objects.
#[derive(Debug, Clone, PartialEq)]
pub enum FileProblem {
    /// A file or directory cannot be read.
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// A file is empty. The removal of a file stops its pods; its truncation does not.
    Empty {
        /// Its path.
        path: PathBuf,
    },
    /// A process has had the file open for writing for some time.
    Written {
        /// Its path.
        path: PathBuf,
    },
    /// A file is not a valid manifest, or has an object beside the pods that the API does not allow.
    Invalid(Vec<Finding>),
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, cause } => {
                write!(f, "cannot read {}: {cause}; its pods stay as they are", path.display())
            }
            Self::Empty { path } => write!(
                f,
                "{} is empty; its pods stay as they are: remove the file to end them",
                path.display()
            ),
            Self::Written { path } => write!(
                f,
                "{} is still being written; it is read when its writer closes it, and its pods stay as they are",
                path.display()
            ),
            Self::Invalid(findings) => {
                let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
                f.write_str(&list.join("; "))
            }
        }
    }
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OnDisk {
    /// A file.
    File(Stamp),
    /// A named directory, whose files are tracked by themselves.
    Directory,
    /// A named file or directory that cannot be read, and why.
    Unreadable(String),
    /// A file that is no longer in its directory.
    Gone,
}

/// A path, its state on disk, and the objects that were last read from it.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) on_disk: OnDisk,
    /// When this state was first seen.
    pub(super) since: Instant,
    /// The state that the objects are of; none before the first read.
    pub(super) read: Option<OnDisk>,
    pub(super) objects: Vec<Object>,
    /// Since when the state on disk has not been read.
    pending: Option<Instant>,
    is_reported: bool,
}

impl Tracked {
    /// A path that has not been read.
    pub(super) fn new(on_disk: OnDisk, objects: Vec<Object>) -> Self {
        let now = Instant::now();
        Self { on_disk, since: now, read: None, objects, pending: Some(now), is_reported: false }
    }

    /// Notes the state on disk.
    pub(super) fn note(&mut self, on_disk: OnDisk) {
        if self.on_disk != on_disk {
            self.since = Instant::now();
            self.on_disk = on_disk;
        }
        if self.is_read() {
            self.accepted();
        } else {
            self.pending.get_or_insert(self.since);
        }
    }

    /// Whether the objects are those of the state on disk.
    pub(super) fn is_read(&self) -> bool {
        self.read.as_ref() == Some(&self.on_disk)
    }

    /// Whether the state on disk is to be read, and has not changed for some time.
    pub(super) fn is_due(&self) -> bool {
        !self.is_read() && self.since.elapsed() >= SETTLED
    }

    /// The state on disk counts as read.
    pub(super) fn accepted(&mut self) {
        self.read = Some(self.on_disk.clone());
        (self.pending, self.is_reported) = (None, false);
    }

    /// Whether to report, once, that the file is still being written.
    pub(super) fn is_late(&mut self) -> bool {
        let is_file = matches!(self.on_disk, OnDisk::File(_));
        let is_late = is_file && self.pending.is_some_and(|since| since.elapsed() >= PATIENCE);
        is_late && !std::mem::replace(&mut self.is_reported, is_late)
    }
}

/// A file to read.
pub(super) struct DueFile {
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
    /// Whether inotify reported that it is being written.
    pub(super) is_written: bool,
}

/// The outcome of reading a file.
pub(super) struct ReadFile {
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
    /// None if it is not complete.
    pub(super) outcome: Option<Result<Vec<Object>, FileProblem>>,
}

impl DueFile {
    /// Reads the file, if it is complete.
    pub(super) fn read(self) -> ReadFile {
        let Self { path, stamp, is_written } = self;
        let outcome = match read_complete(&path, Some(stamp)) {
            Err(error) => Some(Err(FileProblem::Unreadable { path: path.clone(), cause: error.to_string() })),
            Ok(Content::Whole(bytes)) => Some(objects(&path, &bytes)),
            Ok(Content::Doubtful(bytes)) => (!is_written).then(|| objects(&path, &bytes)),
            Ok(Content::Written) => None,
        };
        ReadFile { path, stamp, outcome }
    }
}

fn objects(path: &Path, bytes: &[u8]) -> Result<Vec<Object>, FileProblem> {
    if bytes.trim_ascii().is_empty() {
        return Err(FileProblem::Empty { path: path.to_owned() });
    }
    let reading = manifest::read(&path.display().to_string(), bytes);
    match admission::doubts(&reading, &Gates::default()) {
        doubts if doubts.is_empty() => Ok(reading.objects),
        doubts => Err(FileProblem::Invalid(doubts)),
    }
}
