use std::fs::File;
use std::path::Path;
use std::time::Duration;

use durable::{Guard, Lock};

use crate::error::{Error, Result};

const PAUSE: Duration = Duration::from_millis(10);

/// Waits for the lock as long as its holder works: a layer takes as long as it takes. `waiting` is called again and
/// again, and ends the wait with an error.
pub(crate) fn wait(path: &Path, waiting: &mut dyn FnMut() -> Result<()>) -> Result<Guard> {
    let lock = Lock::at(path);
    loop {
        if let Some(guard) = lock.try_acquire()? {
            return Ok(guard);
        }
        waiting()?;
        std::thread::sleep(PAUSE);
    }
}

/// Locks an existing directory, unless another process holds its lock.
pub(crate) fn of_directory(path: &Path) -> Result<Option<Guard>> {
    let dir = File::open(path).map_err(Error::io("open", path))?;
    Ok(Guard::try_lock(dir, path)?)
}
