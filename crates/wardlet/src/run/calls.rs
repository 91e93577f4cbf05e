//! What is asked of runtime and kernel, written down for whoever compares it with the plan.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::Serialize;

use crate::failure::Failure;

/// A file of calls, one line of JSON each, in the order in which they are made.
#[derive(Clone)]
pub(crate) struct Calls {
    out: Arc<Mutex<File>>,
}

/// A call of the kernel's, set apart from the runtime's.
#[derive(Serialize)]
struct OfKernel<'a> {
    kernel: &'a kernel::Call,
}

impl Calls {
    pub(crate) fn create(file: &Path) -> Result<Self, Failure> {
        let failed = |e: std::io::Error| Failure::unknown(format!("cannot write {}: {e}", file.display()));
        Ok(Self { out: Arc::new(Mutex::new(File::create(file).map_err(failed)?)) })
    }

    /// Every call to the runtime that makes something.
    pub(crate) fn of_runtime(self) -> agent::Journal {
        Arc::new(move |call| self.write(call))
    }

    /// Every call to the kernel that changes a mount or a user namespace of volumes.
    pub(crate) fn of_kernel(&self) -> kernel::Tell {
        let calls = self.clone();
        Box::new(move |call| calls.write(&OfKernel { kernel: call }))
    }

    fn write(&self, call: &impl Serialize) {
        let line = serde_json::to_string(call).unwrap_or_default();
        if let Ok(mut out) = self.out.lock() {
            // Whoever compares finds the line missing.
            let _ = writeln!(out, "{line}");
        }
    }
}
