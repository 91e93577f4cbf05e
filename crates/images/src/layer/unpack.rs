use std::cell::RefCell;
use std::io::Read;
use std::rc::Rc;

use kernel::Dir;

use super::compression::uncompressed;
use super::highest::Highest;
use super::lowers::Lowers;
use super::read::read_entries;
use super::tree::{Ticks, Tree};
use crate::digest::{Digest, Hashing, Tally};
use crate::error::{Error, Result};
use crate::fault::Fault;
use crate::limits::Limits;
use crate::progress::{Progress, Step};

/// Where a layer goes and what is below it.
pub(crate) struct Target {
    /// An empty directory.
    pub(crate) root: Dir,
    /// The unpacked layers below, topmost first.
    pub(crate) lowers: Vec<Dir>,
}

/// What a layer is called and what it may take.
pub(crate) struct Job<'a> {
    pub(crate) name: &'a str,
    /// The how-manyth of how many.
    pub(crate) number: (usize, usize),
    pub(crate) limits: &'a Limits,
    pub(crate) progress: &'a dyn Progress,
}

/// What was found while it was unpacked. Nothing of it has been compared with anything.
pub(crate) struct Unpacked {
    /// Of the archive as it was given.
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    /// Of the archive uncompressed.
    pub(crate) diff_id: Digest,
    pub(crate) highest: Highest,
    /// On disk, without holes.
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// Unpacks the archive `raw` and has it on disk.
pub(crate) fn unpack(raw: impl Read, target: Target, job: &Job<'_>) -> Result<Unpacked> {
    let whole = |fault: Fault| Error::Layer { layer: job.name.to_owned(), fault };
    let unreadable = |error: std::io::Error| whole(Fault::Unreadable(error.to_string()));
    let (mut raw, compressed) = Hashing::new(raw);
    let (highest, bytes, entries, diff_id);
    {
        let (stream, plain) = Hashing::new(uncompressed(&mut raw).map_err(unreadable)?);
        let mut watch =
            Watch { job, compressed: compressed.clone(), bytes: 0, entries: 0, interrupted: false };
        let mut tree = Tree::new(target.root, Lowers::new(target.lowers), &mut watch);
        let read = read_entries(stream, job.name, job.limits, &mut tree);
        let finished = read.and_then(|count| Ok((count, tree.finish().map_err(whole)?)));
        if watch.interrupted {
            return Err(Error::Interrupted);
        }
        bytes = watch.bytes;
        (entries, highest) = finished?;
        diff_id = plain.borrow().digest();
    }
    std::io::copy(&mut raw, &mut std::io::sink()).map_err(unreadable)?;
    let compressed = compressed.borrow();
    Ok(Unpacked { digest: compressed.digest(), size: compressed.length(), diff_id, highest, bytes, entries })
}

/// Holds the limits on what is written, and tells how far it is.
struct Watch<'a> {
    job: &'a Job<'a>,
    compressed: Rc<RefCell<Tally>>,
    bytes: u64,
    entries: u64,
    interrupted: bool,
}

impl Watch<'_> {
    fn tell(&mut self) -> Result<(), Fault> {
        let (layer, layers) = self.job.number;
        let step = Step::Unpacking { what: self.job.name, layer, layers, entries: self.entries };
        if self.job.progress.step(step).is_break() {
            self.interrupted = true;
            return Err(Fault::Unreadable("interrupted".to_owned()));
        }
        Ok(())
    }
}

impl Ticks for Watch<'_> {
    fn bytes(&mut self, count: u64) -> Result<(), Fault> {
        let limits = self.job.limits;
        self.bytes = self.bytes.saturating_add(count);
        if self.bytes > limits.layer_bytes {
            return Err(Fault::Limit { what: "bytes on disk", limit: limits.layer_bytes });
        }
        let packed = self.compressed.borrow().length();
        if self.bytes > limits.ratio_from && self.bytes / packed.max(1) > limits.ratio {
            return Err(Fault::Limit { what: "times its compressed size", limit: limits.ratio });
        }
        self.tell()
    }

    fn entry(&mut self) -> Result<(), Fault> {
        self.entries += 1;
        self.tell()
    }
}
