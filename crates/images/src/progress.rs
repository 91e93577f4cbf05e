use std::ops::ControlFlow;

use crate::error::{Error, Result};

/// One step of long work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// A blob is being fetched.
    Fetching {
        /// Which.
        what: &'a str,
        /// Bytes so far.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// An archive is being uncompressed, or looked through.
    Reading {
        /// Which.
        what: &'a str,
        /// Bytes so far.
        done: u64,
    },
    /// A layer is being unpacked.
    Unpacking {
        /// Which.
        what: &'a str,
        /// The how-manyth layer.
        layer: usize,
        /// Of how many.
        layers: usize,
        /// Entries so far.
        entries: u64,
    },
    /// Somebody else is at it; it will be there when they are done.
    Waiting {
        /// At what.
        what: &'a str,
    },
    /// A layer was there already.
    Present {
        /// Which.
        what: &'a str,
    },
}

/// Hears of long work while it goes on, and may end it.
pub trait Progress: Sync {
    /// Called often; must be quick. Breaking ends the work with [`Error::Interrupted`].
    fn step(&self, step: Step<'_>) -> ControlFlow<()>;
}

/// Nobody listens.
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
