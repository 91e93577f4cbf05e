//! A file of the calls to the runtime and the kernel, for a comparison with the plan.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::Serialize;

use super::calls::Journal;

/// A file of calls, one line of JSON each, in the order in which they are made.
#[derive(Debug, Clone)]
pub struct CallLog {
    out: Arc<Mutex<File>>,
}

/// A system call, in an object of its own to distinguish it from CRI requests.
#[derive(Serialize)]
struct OfKernel<'a> {
    kernel: &'a kernel::Call,
}

impl CallLog {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(file: &Path) -> io::Result<Self> {
        let failed = |e: io::Error| io::Error::new(e.kind(), format!("cannot write {}: {e}", file.display()));
        Ok(Self { out: Arc::new(Mutex::new(File::create(file).map_err(failed)?)) })
    }

    /// A journal that writes each CRI request that creates a sandbox or a container.
    #[must_use]
    pub fn of_runtime(self) -> Journal {
        Arc::new(move |call| self.write(call))
    }

    /// A recorder that writes each system call that changes a mount or a user namespace of volumes.
    #[must_use]
    pub fn of_kernel(&self) -> kernel::Tell {
        let calls = self.clone();
        Box::new(move |call| calls.write(&OfKernel { kernel: call }))
    }

    fn write(&self, call: &impl Serialize) {
        let line = serde_json::to_string(call).unwrap_or_default();
        if let Ok(mut out) = self.out.lock() {
            // The comparison with the plan reports the missing line.
            let _ = writeln!(out, "{line}");
        }
    }
}
