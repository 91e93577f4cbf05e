//! A ledger with something of everything in it, ways to damage it, and what must hold afterwards.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ids::BlockLength;
use ids::allocator::{LeaseError, State};
use ids::pool::IdPool;
use ledger::{BootId, Categories, Lease, LeaseRequest, Ledger, LedgerError, OpenMode, Options};

use crate::common::{Hand, Node, Told, copy_dir, holder, lease, pool};

pub const BLOCKS: u64 = 24;
pub const FILES: [&str; 4] = ["ledger.db", "ledger.db-wal", "copies", "mark"];

/// Where the last changes are: all in SQLite's log, or in the database but for the last few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    Long,
    Short,
}

pub struct Specimen {
    pub node: Node,
    pub held: Vec<Lease>,
}

pub fn small_pool() -> IdPool {
    pool(1, BLOCKS)
}

impl Specimen {
    pub fn new(log: Log) -> Self {
        let node = Node::new();
        let ledger = node.open(small_pool());
        early(&node, &ledger);
        if log == Log::Short {
            fold(&node.state());
        }
        late(&node, &ledger);
        let held = ledger.list().unwrap();
        assert!(held.len() > 9 && ledger.counts().unwrap().free > 3, "{held:?}");
        drop(ledger);
        Self { node, held }
    }

    pub fn now(&self) -> u64 {
        self.node.clock.0.load(Ordering::SeqCst)
    }

    pub fn read(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.node.state().join(file)).unwrap()
    }

    /// How long it is without the zeros at its end.
    pub fn length(&self, file: &str) -> usize {
        self.read(file).iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
    }

    /// A copy of it to be damaged, in memory where there is some: these are many.
    pub fn copy(&self) -> Copy {
        let memory = Path::new("/dev/shm");
        let home = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        copy_dir(&self.node.state(), home.path());
        // The next process on a machine that was switched off finds none.
        let _ = std::fs::remove_file(home.path().join("ledger.db-shm"));
        Copy { home, now: self.now() }
    }
}

fn early(node: &Node, ledger: &Ledger) {
    for name in ["a", "b", "freed", "again", "resting"] {
        lease(ledger, name);
    }
    for name in ["m", "n", "gone"] {
        ledger.join(holder("nfs"), LeaseRequest::new(holder(name))).unwrap();
    }
    for name in ["gone", "freed", "again"] {
        ledger.release(holder(name)).unwrap();
    }
    ledger.settle().unwrap();
    node.pass(60);
    ledger.settle().unwrap();
    let wide = BlockLength::try_from(131_072).unwrap();
    ledger.lease(LeaseRequest { length: Some(wide), ..LeaseRequest::new(holder("wide")) }).unwrap();
}

fn late(node: &Node, ledger: &Ledger) {
    for name in ["again", "draining", "back", "twice"] {
        lease(ledger, name);
    }
    ledger
        .lease(LeaseRequest { categories: Categories::Pair, ..LeaseRequest::new(holder("label")) })
        .unwrap();
    ledger.release(holder("back")).unwrap();
    ledger.release(holder("resting")).unwrap();
    ledger.settle().unwrap();
    node.pass(10);
    // Given back, seen to be vacant, and wanted again: its newest line is the only one that says so.
    lease(ledger, "back");
    ledger.release(holder("twice")).unwrap();
    lease(ledger, "twice");
    ledger.release(holder("draining")).unwrap();
}

pub fn fold(state: &Path) {
    let db = rusqlite::Connection::open(state.join("ledger.db")).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

/// A copy of a specimen.
pub struct Copy {
    pub home: tempfile::TempDir,
    now: u64,
}

impl Copy {
    pub fn path(&self, file: &str) -> PathBuf {
        self.home.path().join(file)
    }

    pub fn write(&self, file: &str, bytes: &[u8]) {
        std::fs::write(self.path(file), bytes).unwrap();
    }

    pub fn flip(&self, file: &str, at: usize, bits: u8) {
        let mut bytes = std::fs::read(self.path(file)).unwrap();
        bytes[at] ^= bits;
        self.write(file, &bytes);
    }

    pub fn remove(&self, file: &str) {
        std::fs::remove_file(self.path(file)).unwrap();
    }

    pub fn options(&self) -> Options {
        let mut options = Options::new(
            self.home.path(),
            small_pool(),
            BootId("boot-1".to_owned()),
            Arc::new(Told::default()) as Arc<_>,
        );
        options.clock = Arc::new(Hand(AtomicU64::new(self.now)));
        options
    }

    pub fn open(&self) -> Ledger {
        Ledger::open(self.options()).unwrap_or_else(|e| panic!("does not open: {e}"))
    }

    /// One file was damaged: the others know everything, and nothing is lost.
    pub fn loses_nothing(&self, held: &[Lease]) {
        let before: Vec<(PathBuf, Vec<u8>)> = self.originals();
        let ledger = self.open();
        assert_eq!(ledger.list().unwrap(), held);
        let notices = ledger.take_notices();
        if notices.iter().any(|n| n.contains("rebuilt")) {
            self.is_set_aside(&before);
        }
        self.gives_only_free(&ledger, held);
        drop(ledger);
        let after = self.open();
        assert_eq!(after.take_notices(), Vec::<String>::new(), "was rebuilt, and again");
        let listed = after.list().unwrap();
        held.iter().for_each(|h| assert!(is_safe(h, &listed), "reopened: {h:?} is not safe"));
    }

    /// One file was damaged, and a process opens the ledger exclusively for a single change: it may have to try twice, and
    /// nothing is lost.
    pub fn serves_exclusively(&self, held: &[Lease]) -> usize {
        let exclusive = || Ledger::open(Options { mode: OpenMode::Exclusive, ..self.options() });
        let lease = || exclusive().and_then(|ledger| ledger.lease(LeaseRequest::new(holder("single"))));
        let (new, times) = match lease() {
            Err(LedgerError::Rebuilt { .. }) => (lease(), 2),
            leased => (leased, 1),
        };
        let new = new.unwrap_or_else(|e| panic!("cannot lease: {e}"));
        let owner = held.iter().find(|h| crate::crash::overlaps(h, &new));
        assert!(owner.is_none(), "{new:?} was given, but is {owner:?}");
        exclusive().unwrap().release(holder("single")).unwrap();
        let listed = self.open().list().unwrap();
        held.iter().for_each(|h| assert!(is_safe(h, &listed), "{h:?} is not safe in {listed:#?}"));
        assert!(listed.iter().any(|l| l.holder == new.holder), "{new:?} is lost");
        assert!(!listed.iter().any(|l| l.state == State::Pinned), "{listed:#?}");
        times
    }

    /// More than one file was damaged: what is not known any more is pinned.
    pub fn frees_nothing(&self, held: &[Lease]) {
        let ledger = self.open();
        let listed = ledger.list().unwrap();
        held.iter().for_each(|h| assert!(is_safe(h, &listed), "{h:?} is not safe in {listed:#?}"));
        self.gives_only_free(&ledger, held);
        drop(ledger);
        let listed = self.open().list().unwrap();
        held.iter().for_each(|h| assert!(is_safe(h, &listed), "reopened: {h:?} is not safe"));
    }

    fn originals(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let path = self.path("ledger.db");
        std::fs::read(&path).map(|bytes| vec![(path, bytes)]).unwrap_or_default()
    }

    fn is_set_aside(&self, originals: &[(PathBuf, Vec<u8>)]) {
        for (path, bytes) in originals {
            let name = format!("{}.damaged-{}", path.file_name().unwrap().to_str().unwrap(), self.now);
            let aside = std::fs::read(self.path(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(aside == *bytes, "{name} is not what {} was", path.display());
        }
    }

    /// Takes every block there is: none may be somebody's.
    fn gives_only_free(&self, ledger: &Ledger, held: &[Lease]) {
        for i in 0..=BLOCKS {
            match ledger.lease(LeaseRequest::new(holder(&format!("new-{i}")))) {
                Ok(new) => {
                    let owner = held.iter().find(|h| crate::crash::overlaps(h, &new));
                    assert!(owner.is_none(), "{new:?} was given, but is {owner:?}");
                }
                Err(LedgerError::Lease { source: LeaseError::Exhausted(_), .. }) => return,
                Err(e) => panic!("cannot lease: {e}"),
            }
        }
        panic!("more blocks than there are");
    }
}

/// Still its holder's and no nearer to being free than it was; or pinned.
fn is_safe(held: &Lease, listed: &[Lease]) -> bool {
    let covering =
        |l: &&Lease| l.uids.span().covers(held.uids.span()) && l.gids.span().covers(held.gids.span());
    listed.iter().find(covering).is_some_and(|l| match l.state {
        State::Pinned | State::Leased => l.state == State::Pinned || l.holder == held.holder,
        _ => l.holder == held.holder && held.state != State::Leased,
    })
}
