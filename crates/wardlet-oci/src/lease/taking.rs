//! A block is taken by two, each in a thread of its own: one has the ledger, the other looks at the host.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use census::{Census, Look};
use ids::witness::Sighting;
use ledger::{Ledger, Options, SIGHTING_AGE};
use settings::Config;

use super::seen::{Earlier, Kept, since_boot};
use super::{Leases, options};
use crate::error::Result;

/// How long one has the ledger, and with it the node's lock, while the other has not said what it is for. That one looks at the
/// caller's files, which may lie on a filesystem that does not answer.
const PATIENCE: Duration = Duration::from_millis(50);

/// What is asked of one who has opened the ledger early, and the ledger: another one, if it had to let others have it
/// meanwhile. Nothing if nothing is asked.
pub fn asked<T>(from: &Receiver<T>, leases: Leases, config: &Config) -> Result<Option<(T, Leases)>> {
    match from.recv_timeout(PATIENCE) {
        Ok(asked) => Ok(Some((asked, leases))),
        Err(RecvTimeoutError::Disconnected) => Ok(None),
        Err(RecvTimeoutError::Timeout) => {
            drop(leases);
            let asked = from.recv().ok();
            asked.map(|asked| Ok((asked, Leases::open(config)?))).transpose()
        }
    }
}

/// What each of the two needs, on a node that is configured like this. Nothing is done yet.
pub fn taking(config: &Config) -> Result<(Opening, Looking)> {
    let (options, kept) = options(config)?;
    let look = Arc::new(kept.witness.begin_to_lease());
    Ok((Opening { options, look: Arc::clone(&look) }, Looking { kept, look, earlier: None }))
}

/// For the one who has the ledger.
pub struct Opening {
    options: Options,
    look: Arc<Look>,
}

impl Opening {
    /// Whether there is a ledger already: one is made only for somebody who gets something from it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        Ledger::exists(&self.options.dir)
    }

    /// Opens the ledger, and helps the other one to look, if that is still to be done.
    pub fn open(self) -> Result<Leases> {
        let ledger = Ledger::open(self.options)?;
        self.look.help(PATIENCE);
        Ok(Leases { ledger })
    }
}

/// For the one who looks. Dropped, it lets go whoever waits to help.
pub struct Looking {
    kept: Arc<Kept<Census>>,
    look: Arc<Look>,
    earlier: Option<Earlier>,
}

impl Looking {
    /// Sees whether another call has looked a moment ago: then nobody has to help.
    pub fn begin(&mut self) {
        self.earlier = self.kept.earlier().filter(|earlier| earlier.began.elapsed() < SIGHTING_AGE);
        if self.earlier.is_some() {
            self.look.cancel();
        }
    }

    /// What was seen a moment ago, or is now. Nothing if it cannot be seen: whoever takes a block looks once more, and
    /// says why.
    #[must_use]
    pub fn look(mut self) -> Option<Seen> {
        if let Some(earlier) = self.earlier.take() {
            let began = earlier.began;
            return Some(Seen { began, sighting: Arc::new(self.kept.recall(earlier)), unkept: None });
        }
        let (began, after_boot) = (Instant::now(), since_boot());
        let sighting = Arc::new(self.look.testify().ok()?);
        Some(Seen { began, sighting, unkept: Some((Arc::clone(&self.kept), after_boot)) })
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.look.cancel();
    }
}

/// What was seen of the host.
pub struct Seen {
    began: Instant,
    sighting: Arc<Sighting>,
    /// Where others look for it, and when it began after the boot.
    unkept: Option<(Arc<Kept<Census>>, Duration)>,
}

impl Seen {
    /// Keeps it for the calls that follow at once.
    pub fn keep(&self) {
        if let Some((kept, after_boot)) = &self.unkept {
            kept.keep(*after_boot, &self.sighting);
        }
    }
}

impl Leases {
    /// Goes by this when a block is chosen, for as long as it is recent.
    pub fn go_by(&self, seen: &Seen) {
        self.ledger.has_seen(seen.began, Arc::clone(&seen.sighting));
    }
}
