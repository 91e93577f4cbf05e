use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use census::Census;
use ids::pool::IdPool;
use ids::{BlockLength, ContainerId, HostId, IdBlock, IdKind, IdMapping, UserNamespace};
use ledger::{BootId, Holder, LeaseRequest, Ledger, Options, Tenure, Verdict};

use crate::scratch::{NAME, alive, maker};
use crate::words::say;

/// The node's ledger, and who this run is in it.
pub(crate) struct Books {
    ledger: Ledger,
    holder: Holder,
}

/// The blocks of host IDs that the container has for itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leased {
    pub(crate) uids: IdBlock,
    pub(crate) gids: IdBlock,
}

impl Books {
    /// Opens the ledger and gives back what runs that were killed had leased.
    pub(crate) fn open(state_dir: &Path) -> anyhow::Result<Self> {
        let boot = "/proc/sys/kernel/random/boot_id";
        let boot = std::fs::read_to_string(boot).with_context(|| format!("cannot read {boot}"))?;
        let pool = IdPool::default_for(BlockLength::DEFAULT, vec![])?;
        let boot = BootId(boot.trim().to_owned());
        let ledger = Ledger::open(Options::new(state_dir, pool, boot, Arc::new(Census::default())))?;
        for notice in ledger.take_notices() {
            say(&format!("warning: {notice}"));
        }
        let books = Self { ledger, holder: Holder::new(format!("{NAME}-{}", std::process::id()))? };
        books.sweep()?;
        Ok(books)
    }

    fn sweep(&self) -> anyhow::Result<()> {
        for holder in self.ledger.list()?.into_iter().filter_map(|lease| lease.holder) {
            if maker(holder.as_str()).is_some_and(|pid| !alive(pid)) {
                self.ledger.release(holder)?;
            }
        }
        Ok(())
    }

    /// Takes a block for as long as this program runs, or this boot lasts.
    pub(crate) fn lease(&self) -> anyhow::Result<Leased> {
        let request = LeaseRequest { tenure: Tenure::UntilReboot, ..LeaseRequest::new(self.holder.clone()) };
        let lease = self.ledger.lease(request)?;
        Ok(Leased { uids: lease.uids, gids: lease.gids })
    }

    /// Gives the block back; what the ledger's own look at the host came to is returned.
    pub(crate) fn release(&self) -> anyhow::Result<Option<Verdict>> {
        self.ledger.release(self.holder.clone())?;
        let verdicts = self.ledger.settle()?;
        Ok(verdicts.into_iter().find(|v| v.lease.holder.as_ref() == Some(&self.holder)))
    }
}

impl Leased {
    pub(crate) fn uid_map(self) -> IdMapping {
        IdMapping::of_block(self.uids)
    }

    pub(crate) fn gid_map(self) -> IdMapping {
        IdMapping::of_block(self.gids)
    }

    /// Who the container's `uid`:`gid` is on the host.
    pub(crate) fn on_host(self, uid: ContainerId, gid: ContainerId) -> anyhow::Result<(HostId, HostId)> {
        let namespace = UserNamespace::Leased { uids: self.uids, gids: self.gids };
        let uid = namespace.to_host(IdKind::Uid, Some(uid))?.unwrap_or(self.uids.base());
        let gid = namespace.to_host(IdKind::Gid, Some(gid))?.unwrap_or(self.gids.base());
        Ok((uid, gid))
    }
}
