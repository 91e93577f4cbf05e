use std::ops::ControlFlow;

use crate::error::{Error, Result};

/// One step of a long operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// A blob is being fetched.
    Fetching {
        /// Its name.
        what: &'a str,
        /// Bytes so far.
        done: u64,
        /// The total number of bytes.
        total: u64,
    },
    /// An archive is being decompressed or read.
    Reading {
        /// Its name.
        what: &'a str,
        /// Bytes so far.
        done: u64,
    },
    /// A layer is being unpacked.
    Unpacking {
        /// Its name.
        what: &'a str,
        /// The number of the layer.
        layer: usize,
        /// The number of layers.
        layers: usize,
        /// Entries so far.
        entries: u64,
    },
    /// Another process fetches or unpacks it; this one waits for it.
    Waiting {
        /// Its name.
        what: &'a str,
    },
    /// A layer exists already.
    Present {
        /// Its name.
        what: &'a str,
    },
}

/// Gets the progress of a long operation, and may cancel it.
pub trait Progress: Sync {
    /// Called often; must be quick. Breaking ends the work with [`Error::Interrupted`].
    fn step(&self, step: Step<'_>) -> ControlFlow<()>;
}

/// Ignores all progress.
#[derive(Debug, Clone, Copy)]
pub struct Quiet;

impl Progress for Quiet {
    fn step(&self, _: Step<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

pub(crate) fn told(progress: &dyn Progress, step: Step<'_>) -> Result<()> {
    match progress.step(step) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Interrupted),
    }
}
