use std::path::Path;

use crate::exec::running;
use crate::failure::Failure;
use crate::{files, sweep};

/// Removes the remains of a container: the engine's state, cgroups, processes of a start that was not finished. A
/// running container is left alone.
pub(crate) fn command(dir: &Path) -> Result<(), Failure> {
    if !dir.join(files::JOB).exists() {
        // No start of it was ever requested.
        return Ok(());
    }
    let job = files::job(dir)?;
    if let Some(process) = running(dir)? {
        let what = format!("container {} runs, as process {}", job.start.id, process.pid());
        return Err(Failure::of(what).hinted("end it first"));
    }
    sweep::after_any_start(dir, &job).map(drop)
}
