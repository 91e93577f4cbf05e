//! The ledger as its callers see it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ids::allocator::{Blocks, Counts, LeaseError};
use ids::pool::IdPool;
use ids::witness::{Sighting, Witness};

use crate::book::{Book, Moment};
use crate::clock::{BootId, Clock, SystemClock};
use crate::db::Stay;
use crate::error::LedgerError;
use crate::holder::Holder;
use crate::lease::{Lease, LeaseRequest};
use crate::line::{Line, lock};
use crate::settle::{Candidate, Testimony, Verdict};
use crate::shared::Released;
use crate::store::{Job, Paths, Store, Terms};

/// How long what was seen on the host is good enough to choose a new block by. Vacancy is never
/// judged by an old look.
pub const SIGHTING_AGE: Duration = Duration::from_secs(1);
/// How often a lease is tried by one who waits for so long each time that a look has become old.
const ATTEMPTS: u32 = 3;

/// What a ledger is opened with.
pub struct Options {
    /// The directory of its files.
    pub dir: PathBuf,
    /// The blocks it gives from.
    pub pool: IdPool,
    /// The most leases that may be held at once.
    pub cap: Option<u32>,
    /// How long a block rests before it is given out again.
    pub quarantine: Duration,
    /// How long to wait for another process before giving up.
    pub patience: Duration,
    /// The kubelet's `pods` directory, asked for its records if the ledger has to be rebuilt.
    pub kubelet_pods: Option<PathBuf>,
    /// This boot.
    pub boot: BootId,
    /// How long this process has it open.
    pub stay: Stay,
    /// Who says which IDs are in use.
    pub witness: Arc<dyn Witness>,
    /// Who says what time it is.
    pub clock: Arc<dyn Clock>,
}

impl Options {
    /// What most callers want: 60 s of quarantine, 30 s of patience, no cap.
    #[must_use]
    pub fn new(dir: &Path, pool: IdPool, boot: BootId, witness: Arc<dyn Witness>) -> Self {
        Self {
            dir: dir.to_owned(),
            pool,
            cap: None,
            quarantine: Duration::from_secs(60),
            patience: Duration::from_secs(30),
            kubelet_pods: None,
            stay: Stay::Long,
            boot,
            witness,
            clock: Arc::new(SystemClock),
        }
    }
}

/// How far a change is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// What will be the holder's, if nothing comes in between.
    Chosen(Lease),
    /// It is on disk.
    OnDisk,
}

/// Durable leases of host ID blocks, shared by all processes of a node.
pub struct Ledger {
    store: Mutex<Store>,
    line: Line<Box<dyn Job>>,
    dir: PathBuf,
    seen: Mutex<Option<(Instant, Arc<Sighting>)>>,
    quarantine: u64,
    boot: BootId,
    witness: Arc<dyn Witness>,
    clock: Arc<dyn Clock>,
}

impl Ledger {
    /// Opens the ledger, makes it if there is none, rebuilds it if it is damaged.
    pub fn open(options: Options) -> Result<Self, LedgerError> {
        let store = store(&options)?;
        Ok(Self::with(store, options))
    }

    /// The same, while the witness looks already: for a process that opens the ledger to lease one block.
    pub fn open_to_lease(options: Options) -> Result<Self, LedgerError> {
        let (began, witness) = (Instant::now(), Arc::clone(&options.witness));
        let (store, seen) = std::thread::scope(|scope| {
            let opening = std::thread::Builder::new().spawn_scoped(scope, || store(&options));
            let seen = witness.look_to_lease();
            // Where there is no thread to be had, or it was broken off, it is opened here.
            let opened = opening.ok().and_then(|opening| opening.join().ok());
            (opened.unwrap_or_else(|| store(&options)), seen)
        });
        let ledger = Self::with(store?, options);
        // One who could not look is asked again by the lease, and is heard.
        if let Ok(seen) = seen {
            ledger.has_seen(began, Arc::new(seen));
        }
        Ok(ledger)
    }

    /// Takes down what the witness saw in a look that began then. It counts for as long as any other look does.
    pub fn has_seen(&self, began: Instant, sighting: Arc<Sighting>) {
        *lock(&self.seen) = Some((began, sighting));
    }

    fn with(store: Store, options: Options) -> Self {
        Self {
            store: Mutex::new(store),
            line: Line::new(),
            dir: options.dir,
            seen: Mutex::new(None),
            quarantine: options.quarantine.as_secs(),
            boot: options.boot,
            witness: options.witness,
            clock: options.clock,
        }
    }

    /// Whether there is a ledger in this directory, or what is left of one.
    #[must_use]
    pub fn exists(dir: &Path) -> bool {
        let paths = Paths::new(dir);
        [paths.db, paths.mirror, paths.mark].iter().any(|p| p.exists())
    }

    /// Gives the holder a block that nobody else has; asked again, the same one. It is on disk when
    /// this returns.
    pub fn lease(&self, request: LeaseRequest) -> Result<Lease, LedgerError> {
        self.lease_telling(request, &channel().0)
    }

    /// The same, and tells how far it is, for one who has something else to do meanwhile. What was chosen is nobody's
    /// before it is on disk.
    pub fn lease_telling(&self, request: LeaseRequest, tell: &Sender<Told>) -> Result<Lease, LedgerError> {
        check_places(&request)?;
        let chosen = tell.clone();
        let op = move |book: &mut Book, seen: &Sighting, moment: &Moment| {
            let lease = book.lease(&request, seen, moment)?;
            // Nobody has to listen.
            let _ = chosen.send(Told::Chosen(lease.clone()));
            Ok(lease)
        };
        self.with_room(op, tell)
    }

    /// Lets the holder join the shared lease of this name, which is made if there is none.
    pub fn join(&self, shared: Holder, request: LeaseRequest) -> Result<Lease, LedgerError> {
        check_places(&request)?;
        let op = move |book: &mut Book, seen: &Sighting, moment: &Moment| {
            book.join(&shared, &request, seen, moment)
        };
        self.with_room(op, &channel().0)
    }

    /// Gives back what the holder has. The block is free only once the witness has seen it vacant and
    /// it has rested.
    pub fn release(&self, holder: Holder) -> Result<Released, LedgerError> {
        self.submit(move |book, moment| book.release(&holder, moment))
    }

    /// Adds to what lies on disk of a lease that the holder has, and leaves out what is gone. Who has none is given none.
    pub fn add_places(&self, holder: Holder, places: Vec<PathBuf>) -> Result<Lease, LedgerError> {
        let request = LeaseRequest { places, ..LeaseRequest::new(holder) };
        check_places(&request)?;
        let witness = Arc::clone(&self.witness);
        self.submit(move |book, moment| {
            // What cannot be looked at is kept.
            let left = |places: &[PathBuf]| witness.remaining(places).unwrap_or_else(|_| places.to_vec());
            book.add_places(&request, left, moment)
        })
    }

    /// For the last of a brief stay that nobody waits for: leaves less to read for those who come next.
    pub fn tidy(&self) {
        lock(&self.store).tidy(&self.moment());
    }

    /// Enters blocks that already are the holder's, from a kubelet's record say.
    pub fn adopt(&self, request: LeaseRequest, blocks: Blocks) -> Result<Lease, LedgerError> {
        self.submit(move |book, moment| book.adopt(&request, blocks, moment))
    }

    /// Every block that is not free.
    pub fn list(&self) -> Result<Vec<Lease>, LedgerError> {
        self.submit(|book, moment| Ok(book.leases.values().map(|r| book.view(r, moment)).collect()))
    }

    /// The lease that the holder has or has joined.
    pub fn get(&self, holder: Holder) -> Result<Option<Lease>, LedgerError> {
        self.submit(move |book, moment| Ok(book.lease_of(&holder).map(|r| book.view(r, moment))))
    }

    /// How many leases stand where.
    pub fn counts(&self) -> Result<Counts, LedgerError> {
        self.submit(|book, _| Ok(book.allocator.counts()))
    }

    /// Looks at the host and moves every block that it may along its way to being free.
    pub fn settle(&self) -> Result<Vec<Verdict>, LedgerError> {
        let (candidates, testimony) = self.investigate()?;
        let rest = self.quarantine;
        self.submit(move |book, moment| {
            let verdicts = book.judge(&candidates, &testimony, rest, moment);
            book.carry_out(&verdicts, moment)?;
            Ok(verdicts)
        })
    }

    /// What `settle` would do.
    pub fn preview(&self) -> Result<Vec<Verdict>, LedgerError> {
        let (candidates, testimony) = self.investigate()?;
        let rest = self.quarantine;
        self.submit(move |book, moment| Ok(book.judge(&candidates, &testimony, rest, moment)))
    }

    /// The witness is asked after the candidates were fixed: nothing it sees is older than their
    /// draining.
    fn investigate(&self) -> Result<(Vec<Candidate>, Testimony), LedgerError> {
        let candidates = self.submit(|book, _| Ok(book.candidates()))?;
        if candidates.is_empty() {
            return Ok((candidates, Testimony { sighting: Sighting::default(), remaining: Vec::new() }));
        }
        // Others can go on meanwhile: what has changed by then is not judged.
        lock(&self.store).let_others();
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

    /// Sends the pinned block that starts at this host user ID on its way to being free.
    pub fn unpin(&self, base: u32) -> Result<Lease, LedgerError> {
        self.submit(move |book, moment| book.unpin(base, moment))
    }

    /// Holders of durable leases that nobody has asked for since the last boot.
    pub fn earlier_boots(&self) -> Result<Vec<Holder>, LedgerError> {
        self.submit(|book, moment| Ok(book.of_earlier_boots(moment)))
    }

    /// What an operator should know about how the ledger came to be open, once each.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.store).notices)
    }

    /// Tries `op`; if nothing is free, frees what is vacant and tries once more.
    fn with_room(
        &self,
        op: impl Fn(&mut Book, &Sighting, &Moment) -> Result<Lease, LedgerError> + Send + Clone + 'static,
        tell: &Sender<Told>,
    ) -> Result<Lease, LedgerError> {
        let attempt = || {
            let mut left = ATTEMPTS;
            loop {
                left -= 1;
                let (op, seen, asked) = (op.clone(), self.recent_sighting()?, Instant::now());
                let turn = move |book: &mut Book, moment: &Moment| {
                    // Who has waited for its turn looks once more.
                    let is_old = left > 0 && asked.elapsed() >= SIGHTING_AGE;
                    if is_old { Ok(None) } else { op(book, &seen, moment).map(Some) }
                };
                let tell = tell.clone();
                let on_disk = move |leased: &Option<Lease>| {
                    if leased.is_some() {
                        let _ = tell.send(Told::OnDisk);
                    }
                };
                if let Some(lease) = self.submit_telling(turn, on_disk)? {
                    return Ok(lease);
                }
            }
        };
        match attempt() {
            Err(LedgerError::Lease { source: LeaseError::Exhausted(_), .. }) => {
                self.settle()?;
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
        let sighting = Arc::new(self.witness.look_to_lease().map_err(|e| LedgerError::Witness(Arc::new(e)))?);
        *seen = Some((Instant::now(), Arc::clone(&sighting)));
        Ok(sighting)
    }

    fn moment(&self) -> Moment {
        Moment { now: self.clock.now(), boot: self.boot.clone() }
    }

    /// Puts `op` in line and waits until it is on disk.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        op: impl FnOnce(&mut Book, &Moment) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.submit_telling(op, |_| ())
    }

    /// The same. `on_disk` is called as soon as it is, before this returns.
    fn submit_telling<T: Send + 'static>(
        &self,
        op: impl FnOnce(&mut Book, &Moment) -> Result<T, LedgerError> + Send + 'static,
        on_disk: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, LedgerError> {
        let slot: Slot<T> = Arc::new(Mutex::new(None));
        let work = Work { op: Some(op), on_disk, result: None, slot: Arc::clone(&slot) };
        let job: Box<dyn Job> = Box::new(work);
        self.line.stand(job, |jobs| {
            // Each of them is told.
            let _ = lock(&self.store).transact(jobs, &self.moment());
        });
        let done = lock(&slot).take();
        // Empty only if whoever led the line panicked on our behalf.
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
        stay: options.stay,
    };
    let moment = Moment { now: options.clock.now(), boot: options.boot.clone() };
    Store::open(&options.dir, terms, &moment)
}

type Slot<T> = Arc<Mutex<Option<Result<T, LedgerError>>>>;

struct Work<F, D, T> {
    op: Option<F>,
    on_disk: D,
    result: Option<Result<T, LedgerError>>,
    slot: Slot<T>,
}

impl<F, D, T> Job for Work<F, D, T>
where
    F: FnOnce(&mut Book, &Moment) -> Result<T, LedgerError> + Send,
    D: FnOnce(&T) + Send,
    T: Send,
{
    fn apply(&mut self, book: &mut Book, moment: &Moment) {
        self.result = self.op.take().map(|op| op(book, moment));
    }

    fn finish(self: Box<Self>, committed: Result<(), LedgerError>) {
        let done = match (committed, self.result) {
            (Err(e), _) => Some(Err(e)),
            (Ok(()), result) => result,
        };
        if let Some(Ok(result)) = &done {
            (self.on_disk)(result);
        }
        *lock(&self.slot) = done;
    }
}

fn check_places(request: &LeaseRequest) -> Result<(), LedgerError> {
    for path in &request.places {
        let why = if !path.is_absolute() {
            "it is not absolute"
        } else if path.to_str().is_none() {
            "it is not UTF-8"
        } else {
            continue;
        };
        return Err(LedgerError::Place { path: path.clone(), why });
    }
    Ok(())
}
