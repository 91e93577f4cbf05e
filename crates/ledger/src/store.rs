//! The files of a ledger and the book read from them, kept in step.
//!
//! ```text
//! STATE/ledger.lock    flock around every change
//! STATE/ledger.db      SQLite: the truth
//! STATE/copies         every row once more, outside SQLite (see `mirror`)
//! STATE/mark           no ID above it was ever leased (see `mark`)
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use durable::{Guard, Lock};
use ids::allocator::Allocator;
use ids::pool::IdPool;

use crate::book::{Book, Moment};
use crate::db::{Changes, Db, Head, LOG_PAGES, ReadError, Stay};
use crate::error::LedgerError;
use crate::files;
use crate::mark::MarkFile;
use crate::mirror::Mirror;
use crate::rebuild::make_database;
use crate::row::LeaseRow;

/// What some changes leave in the log.
const FEW_PAGES: u32 = 16;

/// Where everything lies.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    pub(crate) db: PathBuf,
    pub(crate) lock: PathBuf,
    pub(crate) mirror: PathBuf,
    pub(crate) mark: PathBuf,
}

impl Paths {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            db: dir.join("ledger.db"),
            lock: dir.join("ledger.lock"),
            mirror: dir.join("copies"),
            mark: dir.join("mark"),
        }
    }

    /// Makes every file its owner's alone: one of an earlier version, or of a copy, may be open to all users.
    fn restrict(&self) -> Result<(), LedgerError> {
        let of_sqlite = ["-wal", "-shm", "-journal"].map(|suffix| files::beside(&self.db, suffix));
        let own = [&self.db, &self.lock, &self.mirror, &self.mark];
        own.into_iter().chain(&of_sqlite).try_for_each(|path| files::restrict(path))
    }
}

/// What a store needs to know besides its files.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) pool: IdPool,
    pub(crate) cap: Option<u32>,
    pub(crate) patience: Duration,
    pub(crate) kubelet_pods: Option<PathBuf>,
    pub(crate) stay: Stay,
}

impl Terms {
    pub(crate) fn allocator(&self) -> Allocator {
        Allocator::new(self.pool.clone(), self.cap)
    }
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) paths: Paths,
    pub(crate) terms: Terms,
    lock: Lock,
    db: Option<Db>,
    /// For a brief stay. Dropped after the file that it is held for.
    held: Option<Guard>,
    book: Option<Book>,
    /// Whether the file's pages were seen to hang together since it was opened.
    is_sound: bool,
    pub(crate) mirror: Mirror,
    pub(crate) mark: MarkFile,
    /// What an operator should know about how the ledger came to be open.
    pub(crate) notices: Vec<String>,
}

/// One caller's part of a transaction.
pub(crate) trait Job: Send {
    /// Does its part to the book.
    fn apply(&mut self, book: &mut Book, moment: &Moment);
    /// Is told, once, whether all of it reached the disk.
    fn finish(self: Box<Self>, committed: Result<(), LedgerError>);
}

impl Store {
    pub(crate) fn open(dir: &Path, terms: Terms, moment: &Moment) -> Result<Self, LedgerError> {
        let paths = Paths::new(dir);
        let lock = Lock::at(&paths.lock);
        if !paths.lock.exists() {
            durable::make_dirs(dir, 0o700)?;
        }
        paths.restrict()?;
        let mut store = Self {
            lock,
            mirror: Mirror::new(&paths.mirror, moment.boot.clone()),
            mark: MarkFile::new(&paths.mark),
            paths,
            terms,
            db: None,
            held: None,
            book: None,
            is_sound: false,
            notices: Vec::new(),
        };
        // Who stays briefly and finds others here comes back when there is something to be done.
        if store.terms.stay == Stay::Brief {
            store.held = store.lock.try_acquire()?;
        }
        if store.terms.stay == Stay::Long || store.held.is_some() {
            store.transact(Vec::new(), moment)?;
        }
        Ok(store)
    }

    /// Runs `jobs` as one transaction: all of them are on disk when they are told so, or none. What else there is to be
    /// done comes after that.
    pub(crate) fn transact(
        &mut self,
        mut jobs: Vec<Box<dyn Job>>,
        moment: &Moment,
    ) -> Result<(), LedgerError> {
        let held = self.hold();
        let done = held.and_then(|guard| Ok((self.locked(&mut jobs, moment)?, guard)));
        let told = done.as_ref().map(drop).map_err(Clone::clone);
        for job in jobs {
            job.finish(told.clone());
        }
        match done {
            Ok((Some(changes), _guard)) => self.look_after(&changes, moment),
            Ok((None, _)) => {}
            // What the book says may not be what the disk says: read it again next time.
            Err(_) => self.book = None,
        }
        told
    }

    /// The lock, until what is returned is dropped; for a brief stay, until this is.
    fn hold(&mut self) -> Result<Option<Guard>, LedgerError> {
        if self.held.is_some() {
            return Ok(None);
        }
        let guard = self.lock.acquire(self.terms.patience)?;
        match self.terms.stay {
            Stay::Long => Ok(Some(guard)),
            Stay::Brief => {
                self.held = Some(guard);
                Ok(None)
            }
        }
    }

    /// What was changed, if anything was.
    fn locked(&mut self, jobs: &mut [Box<dyn Job>], moment: &Moment) -> Result<Option<Changes>, LedgerError> {
        let fresh = self.bring_up_to_date(moment)?;
        let (Some(db), Some(book)) = (&self.db, &mut self.book) else { return Ok(None) };
        if fresh {
            book.after_reboot(moment)?;
        }
        for job in jobs {
            job.apply(book, moment);
        }
        let changes = book.take_changes();
        if changes.rows.leases.is_empty() && changes.rows.members.is_empty() {
            return Ok(None);
        }
        self.mark
            .cover(changes.rows.leases.iter().map(LeaseRow::blocks), book.rows().0.map(LeaseRow::blocks))?;
        match db.write(&changes, book.head) {
            Ok(()) => Ok(Some(changes)),
            Err(ReadError::Failed(e)) => Err(e),
            Err(ReadError::Damaged(why)) => {
                // The change is lost; whoever wanted it finds a ledger that can be written to when it comes again.
                self.rebuild(&why, moment)?;
                Err(LedgerError::Rebuilt { path: self.paths.db.clone(), why })
            }
        }
    }

    /// What is to be done after a change, and was not to be waited for.
    fn look_after(&mut self, changes: &Changes, moment: &Moment) {
        self.copy(changes);
        if self.terms.stay == Stay::Brief {
            self.keep_log_below(LOG_PAGES, moment);
        }
    }

    /// Folds the log into the file if it is longer. It is not written to a file whose pages were not seen to hang
    /// together: that one is rebuilt from its copy, which has all that is in the log.
    fn keep_log_below(&mut self, pages: u32, moment: &Moment) {
        let (Some(db), Some(book)) = (&self.db, &self.book) else { return };
        if db.log_pages() <= pages {
            return;
        }
        let sound = if self.is_sound { Ok(()) } else { db.check_structure() };
        match sound {
            Ok(()) => {
                self.is_sound = true;
                db.fold_log(book.head);
            }
            Err(ReadError::Damaged(why)) => {
                if let Err(e) = self.rebuild(&why, moment) {
                    self.notices.push(format!("the ledger is damaged ({why}) and cannot be rebuilt: {e}"));
                }
            }
            // The next one will see.
            Err(ReadError::Failed(_)) => {}
        }
    }

    /// The lease is safe without its copy; a copy that cannot be written is said and made up for by
    /// the next transaction.
    fn copy(&mut self, changes: &Changes) {
        let Some(book) = &self.book else { return };
        let seq = book.head.seq;
        let copied = self.mirror.append(&changes.rows, seq).and_then(|()| {
            if !self.mirror.wants_compaction() {
                return Ok(());
            }
            let (leases, members) = book.rows();
            self.mirror.rewrite(seq, leases, members)
        });
        if let Err(e) = copied {
            self.notices.push(format!("the ledger's copy is behind: {e}"));
        }
    }

    /// Makes the book say what the disk says. True if it was read anew.
    fn bring_up_to_date(&mut self, moment: &Moment) -> Result<bool, LedgerError> {
        match self.catch_up() {
            Ok(true) => return Ok(false),
            Ok(false) => {}
            Err(ReadError::Failed(e)) => return Err(e),
            Err(ReadError::Damaged(why)) => return self.rebuild(&why, moment).map(|()| true),
        }
        self.db = None;
        match self.load() {
            Ok(()) => Ok(true),
            Err(ReadError::Failed(e)) => Err(e),
            Err(ReadError::Damaged(why)) => self.rebuild(&why, moment).map(|()| true),
        }
    }

    /// Reads what others have written since. False if everything has to be read.
    fn catch_up(&mut self) -> Result<bool, ReadError> {
        let (Some(db), Some(book)) = (&self.db, &mut self.book) else { return Ok(false) };
        if !db.current() {
            return Ok(false);
        }
        let head = db.head()?;
        if head != book.head {
            let rows = db.rows_above(book.head.seq)?;
            if head.seq < book.head.seq || book.catch_up(head, rows).is_err() {
                return Ok(false);
            }
        }
        self.keep_copy(head)?;
        Ok(true)
    }

    fn load(&mut self) -> Result<(), ReadError> {
        let new = self.is_new()?;
        if new && std::fs::metadata(&self.paths.db).map_or(true, |found| found.len() == 0) {
            make_database(&self.paths.db, self.terms.allocator()).map_err(ReadError::Failed)?;
        }
        let db = Db::open(&self.paths.db, self.terms.stay)?;
        if new {
            db.create_tables()?;
        }
        let (head, rows) = db.load()?;
        db.check_header()?;
        // The digests vouch for what was read, and the copy has it, too. Whoever stays briefly does not look at the rest
        // before its change is made.
        self.is_sound = self.terms.stay == Stay::Long;
        if self.is_sound {
            db.check_structure()?;
            // Only those who have it open know that it was folded in, and may have ended since.
            if db.log_pages() > LOG_PAGES {
                db.fold_log(head);
            }
        }
        let (book, contradicting) = Book::new(self.terms.allocator(), head, rows);
        if let Some(id) = contradicting.first() {
            return Err(ReadError::Damaged(format!("lease {} overlaps another", id.0)));
        }
        self.db = Some(db);
        self.book = Some(book);
        self.keep_copy(head)
    }

    /// Whether nothing says that there ever was a ledger here. Where something does, a database that is
    /// missing or empty is not one to be filled: SQLite would begin by deleting its log.
    fn is_new(&self) -> Result<bool, ReadError> {
        let spoken_of = self.paths.mirror.exists() || self.paths.mark.exists();
        let log = files::beside(&self.paths.db, "-wal").exists();
        match std::fs::metadata(&self.paths.db) {
            Ok(found) if found.len() > 0 => Ok(!spoken_of),
            Ok(_) if spoken_of || log => Err(ReadError::Damaged("it is empty".to_owned())),
            Err(_) if spoken_of || log => Err(ReadError::Damaged("it is missing".to_owned())),
            _ => Ok(true),
        }
    }

    /// Compares the copy with the database, and writes it anew where it is behind or of another boot.
    fn keep_copy(&mut self, head: Head) -> Result<(), ReadError> {
        match self.mirror.tail() {
            Some(tail) if tail.seq == head.seq && tail.of_this_boot => Ok(()),
            Some(tail) if tail.seq > head.seq => Err(ReadError::Damaged(format!(
                "it ends at change {}, but its copy goes on to {}",
                head.seq, tail.seq
            ))),
            _ => {
                let Some(book) = &self.book else { return Ok(()) };
                // Whoever wrote to the log may have been killed before it was on disk: the copy is not to be ahead of it.
                files::sync_file(&files::beside(&self.paths.db, "-wal")).map_err(ReadError::Failed)?;
                let (leases, members) = book.rows();
                if let Err(e) = self.mirror.rewrite(head.seq, leases, members) {
                    self.notices.push(format!("the ledger's copy is behind: {e}"));
                }
                Ok(())
            }
        }
    }

    /// Takes over a database and a book that were made anew.
    pub(crate) fn install(&mut self, book: Book) -> Result<(), LedgerError> {
        let open = |e| match e {
            ReadError::Failed(e) => e,
            ReadError::Damaged(why) => LedgerError::io("use", &self.paths.db, std::io::Error::other(why)),
        };
        self.db = Some(Db::open(&self.paths.db, self.terms.stay).map_err(open)?);
        self.book = Some(book);
        self.is_sound = true;
        Ok(())
    }

    /// Leaves less to read for those who open it next.
    pub(crate) fn tidy(&mut self, moment: &Moment) {
        if self.held.is_some() {
            self.keep_log_below(FEW_PAGES, moment);
        }
    }

    /// Ends a brief stay for now: the next change begins another.
    pub(crate) fn let_others(&mut self) {
        if self.held.is_some() {
            self.close();
            self.held = None;
        }
    }

    /// Lets go of the files, so that they can be set aside.
    pub(crate) fn close(&mut self) {
        self.db = None;
        self.book = None;
    }
}
