//! The ledger as its callers see it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ids::allocator::{Blocks, Counts, LeaseError};
use ids::pool::IdPool;
use ids::witness::{Sighting, Witness};

use crate::clock::{BootId, Clock, SystemClock};
use crate::commit_queue::{CommitQueue, lock};
use crate::error::LedgerError;
use crate::holder::Holder;
use crate::lease::{Lease, LeaseRequest};
use crate::lease_table::{LeaseTable, Moment};
use crate::pair::PairVerdict;
use crate::pairs::PairCandidate;
use crate::paths::{OpenMode, Paths, Terms};
use crate::settle::{Candidate, Testimony, Verdict};
use crate::shared::Released;
use crate::store::{Job, Store};

/// How long a host scan may be used to choose a new block. A block is never declared vacant by an old scan.
const SIGHTING_AGE: Duration = Duration::from_secs(1);
/// How many times a lease is tried if the wait for the commit queue outlasts the host scan.
const ATTEMPTS: u32 = 3;

/// Configuration of a [`Ledger`].
pub struct Options {
    /// The directory of its files.
    pub dir: PathBuf,
    /// The blocks that may be leased.
    pub pool: IdPool,
    /// The most leases that may be held at once.
    pub cap: Option<u32>,
    /// How long a vacant block rests before it is leased again.
    pub quarantine: Duration,
    /// How long to wait for the lock that another process holds, before [`LedgerError::Stuck`].
    pub patience: Duration,
    /// The kubelet's `pods` directory. Its records are adopted if the ledger has to be rebuilt.
    pub kubelet_pods: Option<PathBuf>,
    /// The kernel's boot ID.
    pub boot: BootId,
    /// How this process shares it with others.
    pub mode: OpenMode,
    /// The host scan that reports which IDs are in use.
    pub witness: Arc<dyn Witness>,
    /// The source of the time.
    pub clock: Arc<dyn Clock>,
}

impl Options {
    /// Defaults: 60 s of quarantine, 30 s of patience, no cap, shared mode.
    #[must_use]
    pub fn new(dir: &Path, pool: IdPool, boot: BootId, witness: Arc<dyn Witness>) -> Self {
        Self {
            dir: dir.to_owned(),
            pool,
            cap: None,
            quarantine: Duration::from_secs(60),
            patience: Duration::from_secs(30),
            kubelet_pods: None,
            mode: OpenMode::Shared,
            boot,
            witness,
            clock: Arc::new(SystemClock),
        }
    }
}

/// Durable leases of host ID blocks and SELinux category pairs, shared by all processes of a node.
pub struct Ledger {
    store: Mutex<Store>,
    commits: CommitQueue<Box<dyn Job>>,
    dir: PathBuf,
    seen: Mutex<Option<(Instant, Arc<Sighting>)>>,
    quarantine: u64,
    boot: BootId,
    witness: Arc<dyn Witness>,
    clock: Arc<dyn Clock>,
}

impl Ledger {
    /// Opens the ledger. Creates it if there is none, and rebuilds it if it is damaged; [`Ledger::take_notices`] then
    /// says so. Fails if the lock is held for too long, the files cannot be written, or a newer wardlet wrote them.
    pub fn open(options: Options) -> Result<Self, LedgerError> {
        durable::check_ownership_as_root(&options.dir)?;
        let store = store(&options)?;
        Ok(Self::with(store, options))
    }

    /// Scans the host, then opens the ledger: for a process that opens it to lease one block. In exclusive mode others would
    /// wait for a scan that comes later.
    pub fn open_to_lease(options: Options) -> Result<Self, LedgerError> {
        let began = Instant::now();
        let sighting = options.witness.look_to_lease().map_err(|e| LedgerError::Witness(Arc::new(e)))?;
        let ledger = Self::open(options)?;
        *lock(&ledger.seen) = Some((began, Arc::new(sighting)));
        Ok(ledger)
    }

    fn with(store: Store, options: Options) -> Self {
        Self {
            store: Mutex::new(store),
            commits: CommitQueue::new(),
            dir: options.dir,
            seen: Mutex::new(None),
            quarantine: options.quarantine.as_secs(),
            boot: options.boot,
            witness: options.witness,
            clock: options.clock,
        }
    }

    /// Whether this directory has a ledger, or any file of one.
    #[must_use]
    pub fn exists(dir: &Path) -> bool {
        let paths = Paths::new(dir);
        [paths.db, paths.mirror, paths.mark].iter().any(|p| p.exists())
    }

    /// Leases a block to the holder, or returns the lease that it has already. The lease is on disk when this returns.
    /// If the pool is exhausted, this first frees vacant blocks as [`Ledger::settle`] does.
    pub fn lease(&self, request: LeaseRequest) -> Result<Lease, LedgerError> {
        check_places(&request)?;
        self.with_room(move |table: &mut LeaseTable, seen: &Sighting, moment: &Moment| {
            table.lease(&request, seen, moment)
        })
    }

    /// Adds the holder to the members of the shared lease of this name, which is created if there is none.
    pub fn join(&self, shared: Holder, request: LeaseRequest) -> Result<Lease, LedgerError> {
        check_places(&request)?;
        let op = move |table: &mut LeaseTable, seen: &Sighting, moment: &Moment| {
            table.join(&shared, &request, seen, moment)
        };
        self.with_room(op)
    }

    /// Releases the holder's lease, or its membership of a shared lease. The block drains: it is free only after a host
    /// scan found it vacant, the quarantine has passed, and a second scan found it vacant again.
    pub fn release(&self, holder: Holder) -> Result<Released, LedgerError> {
        self.submit(move |table, moment| table.release(&holder, moment))
    }

    /// Records more paths with the holder's lease, and drops the recorded paths that no longer exist. Fails with
    /// [`LedgerError::NotHeld`] if the holder has no lease.
    pub fn add_places(&self, holder: Holder, places: Vec<PathBuf>) -> Result<Lease, LedgerError> {
        let request = LeaseRequest { places, ..LeaseRequest::new(holder) };
        check_places(&request)?;
        let witness = Arc::clone(&self.witness);
        self.submit(move |table, moment| {
            // Paths that cannot be checked are kept.
            let left = |places: &[PathBuf]| witness.remaining(places).unwrap_or_else(|_| places.to_vec());
            table.add_places(&request, left, moment)
        })
    }

    /// Records blocks that the holder uses already, for instance those of a kubelet's record. Fails with
    /// [`LedgerError::Adoption`] if they overlap another lease.
    pub fn adopt(&self, request: LeaseRequest, blocks: Blocks) -> Result<Lease, LedgerError> {
        self.submit(move |table, moment| table.adopt(&request, blocks, moment))
    }

    /// All leases: every block that is not free.
    pub fn list(&self) -> Result<Vec<Lease>, LedgerError> {
        self.submit(|table, moment| Ok(table.leases.values().map(|r| table.view(r, moment)).collect()))
    }

    /// The lease that the holder has or has joined.
    pub fn get(&self, holder: Holder) -> Result<Option<Lease>, LedgerError> {
        self.submit(move |table, moment| Ok(table.lease_of(&holder).map(|r| table.view(r, moment))))
    }

    /// The number of leases in each state.
    pub fn counts(&self) -> Result<Counts, LedgerError> {
        self.submit(|table, _| Ok(table.allocator.counts()))
    }

    /// Scans the host and advances every released block: from draining to quarantined, and from there to free. A block
    /// in use drains again.
    pub fn settle(&self) -> Result<Vec<Verdict>, LedgerError> {
        let (candidates, testimony) = self.investigate()?;
        let rest = self.quarantine;
        self.submit(move |table, moment| {
            let verdicts = table.judge(&candidates, &testimony, rest, moment);
            table.execute(&verdicts, moment)?;
            Ok(verdicts)
        })
    }

    /// The verdicts that [`Ledger::settle`] would execute. Changes nothing.
    pub fn preview(&self) -> Result<Vec<Verdict>, LedgerError> {
        let (candidates, testimony) = self.investigate()?;
        let rest = self.quarantine;
        self.submit(move |table, moment| Ok(table.judge(&candidates, &testimony, rest, moment)))
    }

    /// Scans the host after the candidates were fixed: nothing in the scan is older than their draining.
    fn investigate(&self) -> Result<(Vec<Candidate>, Testimony), LedgerError> {
        let candidates = self.submit(|table, _| Ok(table.candidates()))?;
        if candidates.is_empty() {
            return Ok((candidates, Testimony { sighting: Sighting::default(), remaining: Vec::new() }));
        }
        // Other processes may use the ledger during the scan: leases that change meanwhile are not judged.
        lock(&self.store).release_lock();
        let failed = |e| LedgerError::Witness(Arc::new(e));
        let sighting = self.witness.look().map_err(failed)?;
        let mut remaining = Vec::new();
        for candidate in &candidates {
            let places: Vec<PathBuf> = candidate.places.iter().map(Into::into).collect();
            let left = self.witness.remaining(&places).map_err(failed)?;
            remaining.push(left.into_iter().map(|p| p.display().to_string()).collect());
        }
        Ok((candidates, Testimony { sighting, remaining }))
    }

    /// Frees category pairs whose path no longer exists, and that were released or are of an earlier boot and not
    /// confirmed since.
    pub fn settle_pairs(&self) -> Result<Vec<PairVerdict>, LedgerError> {
        let (candidates, gone) = self.investigate_pairs()?;
        self.submit(move |table, moment| {
            let verdicts = table.judge_pairs(&candidates, &gone);
            table.execute_pairs(&verdicts, moment);
            Ok(verdicts)
        })
    }

    /// The verdicts that [`Ledger::settle_pairs`] would execute. Changes nothing.
    pub fn preview_pairs(&self) -> Result<Vec<PairVerdict>, LedgerError> {
        let (candidates, gone) = self.investigate_pairs()?;
        self.submit(move |table, _| Ok(table.judge_pairs(&candidates, &gone)))
    }

    /// Checks the paths after the candidates were fixed, and without the lock.
    fn investigate_pairs(&self) -> Result<(Vec<PairCandidate>, HashSet<Holder>), LedgerError> {
        let candidates = self.submit(|table, moment| Ok(table.pair_candidates(moment)))?;
        let is_gone = |c: &&PairCandidate| !exists(&*self.witness, &c.held.place);
        let gone = candidates.iter().filter(is_gone).map(|c| c.held.holder.clone()).collect();
        Ok((candidates, gone))
    }

    /// Makes the pinned block that starts at this host user ID draining. Fails with [`LedgerError::NotPinned`] if there
    /// is none.
    pub fn unpin(&self, base: u32) -> Result<Lease, LedgerError> {
        self.submit(move |table, moment| table.unpin(base, moment))
    }

    /// Holders of durable leases that no caller has requested since the last boot.
    pub fn earlier_boots(&self) -> Result<Vec<Holder>, LedgerError> {
        self.submit(|table, moment| Ok(table.of_earlier_boots(moment)))
    }

    /// Warnings for the operator from opening the ledger, such as a rebuild. Each is returned once.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.store).notices)
    }

    /// Tries `op`; if nothing is free, frees what is vacant and tries once more.
    fn with_room(
        &self,
        op: impl Fn(&mut LeaseTable, &Sighting, &Moment) -> Result<Lease, LedgerError> + Send + Clone + 'static,
    ) -> Result<Lease, LedgerError> {
        let attempt = || {
            let mut left = ATTEMPTS;
            loop {
                left -= 1;
                let (op, seen, asked) = (op.clone(), self.recent_sighting()?, Instant::now());
                let turn = move |table: &mut LeaseTable, moment: &Moment| {
                    // The scan is too old after a long wait in the queue: scan again.
                    let is_old = left > 0 && asked.elapsed() >= SIGHTING_AGE;
                    if is_old { Ok(None) } else { op(table, &seen, moment).map(Some) }
                };
                if let Some(lease) = self.submit(turn)? {
                    return Ok(lease);
                }
            }
        };
        match attempt() {
            Err(LedgerError::Lease { source: LeaseError::Exhausted(_), .. }) => {
                self.settle()?;
                attempt()
            }
            Err(LedgerError::NoPair { .. }) => {
                self.settle_pairs()?;
                attempt()
            }
            done => done,
        }
    }

    fn recent_sighting(&self) -> Result<Arc<Sighting>, LedgerError> {
        let mut seen = lock(&self.seen);
        if let Some((_, sighting)) = seen.as_ref().filter(|(at, _)| at.elapsed() < SIGHTING_AGE) {
            return Ok(Arc::clone(sighting));
        }
        // Others can go on during the scan: nothing was changed under the lock for this lease yet.
        lock(&self.store).release_lock();
        let sighting = Arc::new(self.witness.look_to_lease().map_err(|e| LedgerError::Witness(Arc::new(e)))?);
        *seen = Some((Instant::now(), Arc::clone(&sighting)));
        Ok(sighting)
    }

    pub(crate) fn witness(&self) -> Arc<dyn Witness> {
        Arc::clone(&self.witness)
    }

    fn moment(&self) -> Moment {
        Moment { now: self.clock.now(), boot: self.boot.clone() }
    }

    /// Submits `op` to the group commit queue and waits until it is on disk.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        op: impl FnOnce(&mut LeaseTable, &Moment) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let slot: Slot<T> = Arc::new(Mutex::new(None));
        let work = Work { op: Some(op), result: None, slot: Arc::clone(&slot) };
        let job: Box<dyn Job> = Box::new(work);
        self.commits.submit(job, |jobs| {
            // Each job receives the result.
            let _ = lock(&self.store).transact(jobs, &self.moment());
        });
        let done = lock(&slot).take();
        // Empty only if the thread that committed the queue panicked.
        done.unwrap_or_else(|| {
            Err(LedgerError::io(
                "cannot write",
                &self.dir,
                std::io::Error::other("the writing thread panicked"),
            ))
        })
    }
}

fn store(options: &Options) -> Result<Store, LedgerError> {
    let terms = Terms {
        pool: options.pool.clone(),
        cap: options.cap,
        patience: options.patience,
        kubelet_pods: options.kubelet_pods.clone(),
        mode: options.mode,
    };
    let moment = Moment { now: options.clock.now(), boot: options.boot.clone() };
    Store::open(&options.dir, terms, &moment)
}

type Slot<T> = Arc<Mutex<Option<Result<T, LedgerError>>>>;

struct Work<F, T> {
    op: Option<F>,
    result: Option<Result<T, LedgerError>>,
    slot: Slot<T>,
}

impl<F, T> Job for Work<F, T>
where
    F: FnOnce(&mut LeaseTable, &Moment) -> Result<T, LedgerError> + Send,
    T: Send,
{
    fn apply(&mut self, table: &mut LeaseTable, moment: &Moment) {
        self.result = self.op.take().map(|op| op(table, moment));
    }

    fn finish(self: Box<Self>, committed: Result<(), LedgerError>) {
        *lock(&self.slot) = match (committed, self.result) {
            (Err(e), _) => Some(Err(e)),
            (Ok(()), result) => result,
        };
    }
}

fn check_places(request: &LeaseRequest) -> Result<(), LedgerError> {
    request.places.iter().try_for_each(|path| check_place(path))
}

/// Whether a place exists; one that cannot be looked for may.
pub(crate) fn exists(witness: &dyn Witness, place: &Path) -> bool {
    witness.remaining(&[place.to_owned()]).map_or(true, |left| !left.is_empty())
}

/// Refuses a path that cannot be written down.
pub(crate) fn check_place(path: &Path) -> Result<(), LedgerError> {
    let why = if !path.is_absolute() {
        "it is not absolute"
    } else if path.to_str().is_none() {
        "it is not UTF-8"
    } else {
        return Ok(());
    };
    Err(LedgerError::Place { path: path.to_owned(), why })
}
