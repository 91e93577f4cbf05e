//! Whether a container's first process is where its files are.
//!
//! An engine may keep a container behind another kernel (a virtual machine, or one in user space). The process
//! that it names is then one of the host's: joining it would run a command of the container's beside it on the
//! host, outside of all that holds the container. There only the engine can run one.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use kernel::Process;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::files;

const FILE: &str = "place.json";
const VERSION: u32 = 1;
/// How long a process may take from closing its files to its end.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Record {
    version: u32,
    first_process: Place,
}

/// Where a container's first process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Place {
    /// In the files that were prepared for it.
    Inside,
    /// Elsewhere: what was asked for runs on another kernel.
    Outside,
}

/// The `/` that was prepared for a container.
pub(crate) struct Root {
    ready: Metadata,
    host: Metadata,
}

impl Root {
    pub(crate) fn of(rootfs: &Path) -> Result<Self, Failure> {
        Ok(Self { ready: look(rootfs)?, host: look(Path::new("/"))? })
    }

    /// Writes down where the engine has put the container's first process.
    pub(crate) fn note(&self, dir: &Path, process: &Process) -> Result<(), Failure> {
        let first_process = match fs::metadata(format!("/proc/{}/root/", process.pid())) {
            Ok(root) if !self.has(&root) => Place::Outside,
            Ok(_) => Place::Inside,
            // It has ended, so that no process will join it.
            Err(_) if ends(process)? => Place::Inside,
            Err(cause) => return Err(Failure::during("cannot look at the container's /", cause)),
        };
        let record = Record { version: VERSION, first_process };
        let bytes =
            serde_json::to_vec(&record).map_err(|cause| Failure::during("cannot write a record", cause))?;
        files::write(&dir.join(FILE), &bytes)
    }

    /// A program may have gone further in by itself by now: any directory of a filesystem that is the
    /// container's alone is inside.
    fn has(&self, root: &Metadata) -> bool {
        let same = (root.dev(), root.ino()) == (self.ready.dev(), self.ready.ino());
        same || (root.dev() == self.ready.dev() && root.dev() != self.host.dev())
    }
}

/// Whether it has ended, or is about to: a process closes its files some time before it becomes a zombie.
fn ends(process: &Process) -> Result<bool, Failure> {
    let since = Instant::now();
    while process.is_running()? {
        if since.elapsed() > PATIENCE {
            return Ok(false);
        }
        sleep(PAUSE);
    }
    Ok(true)
}

/// Where a container's first process is, as it was recorded. What is not known is not inside.
pub(crate) fn of(dir: &Path) -> Result<Place, Failure> {
    let record: Record = files::json(&dir.join(FILE))?;
    if record.version == VERSION {
        return Ok(record.first_process);
    }
    Err(Failure::of(format!("{} has version {}, and only {VERSION} is known", FILE, record.version)))
}

fn look(path: &Path) -> Result<Metadata, Failure> {
    fs::metadata(path).map_err(|cause| Failure::during(&format!("cannot look at {}", path.display()), cause))
}
