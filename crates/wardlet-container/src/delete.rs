use std::path::Path;

use crate::exec::running;
use crate::failure::Failure;
use crate::{files, sweep};

/// Takes away what is left of a container: engine's state, control groups, processes of a start that
/// nobody finished. One that runs is left alone.
pub(crate) fn command(dir: &Path) -> Result<(), Failure> {
    if !dir.join(files::JOB).exists() {
        // Nobody was ever told to start it.
        return Ok(());
    }
    let job = files::job(dir)?;
    if let Some(process) = running(dir)? {
        let what = format!("container {} runs, as process {}", job.start.id, process.pid());
        return Err(Failure::of(what).hinted("end it first"));
    }
    sweep::after_somebody(dir, &job).map(drop)
}
