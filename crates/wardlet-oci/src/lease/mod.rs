//! What is known of pods with a user namespace: their leases in the node's ledger, and a record of each
//! container for the calls to come.

mod alive;
mod names;
mod record;
mod seen;
mod store;
mod sweep;
mod taking;

pub use alive::{Creator, init_of};
pub use names::holder;
pub(crate) use record::VERSION;
pub use record::{Record, Standing};
pub use store::Records;
pub use sweep::{Swept, gone, something_is_left, sweep};
pub use taking::{Looking, Opening, Seen, asked, taking};

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use bundle::IdLines;
use census::{Census, HostRoot};
use ids::witness::Witness;
use ids::{BlockLength, IdMapping};
use ledger::{Holder, Lease, LeaseRequest, Ledger, LedgerError, Stay, Tenure, Told};
use settings::Config;

use crate::error::Result;
use seen::Kept;

/// The node's ledger, as the wrapper uses it: others wait until this is dropped.
pub struct Leases {
    ledger: Ledger,
}

impl Leases {
    /// Opens the ledger; it is made if there is none.
    pub fn open(config: &Config) -> Result<Self> {
        Ok(Self { ledger: Ledger::open(options(config)?.0)? })
    }

    /// The holder's block, the same however often it asks. It is on disk when this returns, and who listens is told before
    /// how far it is.
    pub fn take(
        &self,
        holder: Holder,
        length: Option<BlockLength>,
        (places, tell): (Vec<PathBuf>, &Sender<Told>),
    ) -> Result<IdLines> {
        let request =
            LeaseRequest { length, places, tenure: Tenure::UntilReboot, ..LeaseRequest::new(holder) };
        Ok(lines(&self.ledger.lease_telling(request, tell)?))
    }

    /// Adds to what lies on disk of a lease that is held.
    pub fn add_places(&self, holder: &Holder, places: &[PathBuf]) -> Result<()> {
        again(|| self.ledger.add_places(holder.clone(), places.to_owned()))
    }

    /// Comes back when nobody else has the ledger.
    pub fn wait(&self) -> Result<()> {
        self.ledger.counts()?;
        Ok(())
    }

    /// Leaves less to read for those who come next.
    pub fn tidy(&self) {
        self.ledger.tidy();
    }

    /// Gives a lease back. Nobody gets the block before it was seen to be vacant and has rested.
    pub fn release(&self, holder: &Holder) -> Result<()> {
        again(|| self.ledger.release(holder.clone()))
    }
}

/// Once more, if the ledger was found to be damaged and has been rebuilt.
fn again<T>(change: impl Fn() -> std::result::Result<T, LedgerError>) -> Result<()> {
    match change() {
        Err(LedgerError::Rebuilt { .. }) => change()?,
        changed => changed?,
    };
    Ok(())
}

/// The maps of a user namespace that has the IDs of a lease.
pub(crate) fn lines(lease: &Lease) -> IdLines {
    let line = |block| vec![IdMapping::of_block(block)];
    IdLines { uids: line(lease.uids), gids: line(lease.gids) }
}

fn options(config: &Config) -> Result<(ledger::Options, Arc<Kept<Census>>)> {
    let host = HostRoot::new("/");
    let pool = settings::pool::for_wrapper(config, &host)?;
    let terms = settings::ledger::Terms { state_dir: &config.settings.wrapper.state_dir, pool };
    let kept = Kept {
        witness: settings::ledger::census(config, &host),
        claims: Census::claims,
        file: config.settings.wrapper.run_dir.join("seen"),
    };
    let kept = Arc::new(kept);
    let witness = Arc::clone(&kept) as Arc<dyn Witness>;
    let options = settings::ledger::options(config, &host, terms)?;
    Ok((ledger::Options { stay: Stay::Brief, witness, ..options }, kept))
}
