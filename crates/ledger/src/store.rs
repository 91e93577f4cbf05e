//! The files of a ledger and the lease table read from them, kept in step.
//!
//! ```text
//! STATE/ledger.lock    flock around every change
//! STATE/ledger.db      SQLite: the truth
//! STATE/copies         every row once more, outside SQLite (see `mirror`)
//! STATE/mark           no ID above it was ever leased (see `mark`)
//! ```

use std::path::Path;

use durable::{Guard, Lock};

use crate::db::{Changes, Db, Head, ReadError};
use crate::error::LedgerError;
use crate::files;
use crate::lease_table::{LeaseTable, Moment};
use crate::mark::MarkFile;
use crate::mirror::Mirror;
use crate::paths::{OpenMode, Paths, Terms};
use crate::rebuild::{Damaged, make_database};
use crate::row::LeaseRow;

#[derive(Debug)]
pub(crate) struct Store {
    paths: Paths,
    terms: Terms,
    lock: Lock,
    db: Option<Db>,
    /// In exclusive mode. Dropped after the file that it is held for.
    held: Option<Guard>,
    table: Option<LeaseTable>,
    mirror: Mirror,
    mark: MarkFile,
    /// What an operator should know about how the ledger came to be open.
    pub(crate) notices: Vec<String>,
}

/// One caller's part of a transaction.
pub(crate) trait Job: Send {
    /// Does its part to the lease table.
    fn apply(&mut self, table: &mut LeaseTable, moment: &Moment);
    /// Receives, once, whether the transaction is on disk.
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
            table: None,
            notices: Vec::new(),
        };
        store.transact(Vec::new(), moment)?;
        Ok(store)
    }

    /// Runs `jobs` as one transaction, and reports the result to each: all of them are on disk, or none. The copy is
    /// written after that.
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
            Ok((Some(changes), _guard)) => self.copy(&changes),
            Ok((None, _)) => {}
            // What the lease table says may not be what the disk says: read it again next time.
            Err(_) => self.table = None,
        }
        told
    }

    /// The lock, until what is returned is dropped; in exclusive mode, until this is.
    fn hold(&mut self) -> Result<Option<Guard>, LedgerError> {
        if self.held.is_some() {
            return Ok(None);
        }
        let guard = self.lock.acquire(self.terms.patience)?;
        match self.terms.mode {
            OpenMode::Shared => Ok(Some(guard)),
            OpenMode::Exclusive => {
                self.held = Some(guard);
                Ok(None)
            }
        }
    }

    /// What was changed, if anything was.
    fn locked(&mut self, jobs: &mut [Box<dyn Job>], moment: &Moment) -> Result<Option<Changes>, LedgerError> {
        let fresh = self.bring_up_to_date(moment)?;
        let (Some(db), Some(table)) = (&self.db, &mut self.table) else { return Ok(None) };
        if fresh {
            table.after_reboot(moment)?;
        }
        for job in jobs {
            job.apply(table, moment);
        }
        let changes = table.take_changes();
        if changes.rows.is_empty() {
            return Ok(None);
        }
        self.mark.cover(
            changes.rows.leases.iter().map(LeaseRow::blocks),
            table.lease_rows().map(LeaseRow::blocks),
        )?;
        match db.write(&changes, table.head) {
            Ok(()) => Ok(Some(changes)),
            Err(ReadError::Failed(e)) => Err(e),
            Err(ReadError::Damaged(why)) => {
                // The change is lost; the ledger is writable when the caller tries again.
                self.rebuild(&why, moment)?;
                Err(LedgerError::Rebuilt { path: self.paths.db.clone(), why })
            }
        }
    }

    /// The lease is safe without its copy; a copy that cannot be written is said and made up for by
    /// the next transaction.
    fn copy(&mut self, changes: &Changes) {
        let Some(table) = &self.table else { return };
        let seq = table.head.seq;
        let copied = self.mirror.append(&changes.rows, seq).and_then(|()| {
            if !self.mirror.wants_compaction() {
                return Ok(());
            }
            self.mirror.rewrite(seq, table.rows())
        });
        if let Err(e) = copied {
            self.notices.push(format!("the ledger's copy is behind: {e}"));
        }
    }

    /// Makes the lease table say what the disk says. True if it was read anew.
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
        let (Some(db), Some(table)) = (&self.db, &mut self.table) else { return Ok(false) };
        if !db.current() {
            return Ok(false);
        }
        let head = db.head()?;
        if head != table.head {
            let rows = db.rows_above(table.head.seq)?;
            if head.seq < table.head.seq || table.catch_up(head, rows).is_err() {
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
        let db = Db::open(&self.paths.db)?;
        if new {
            db.create_tables()?;
        }
        let (head, rows) = db.load()?;
        db.check_header()?;
        // Before the checkpoint: the log is not written to a file whose pages do not hang together.
        db.check_structure()?;
        db.migrate()?;
        db.truncate_long_log();
        let (table, contradicting) = LeaseTable::new(self.terms.allocator(), head, rows);
        if let Some(id) = contradicting.first() {
            return Err(ReadError::Damaged(format!("lease {} overlaps another", id.0)));
        }
        self.db = Some(db);
        self.table = Some(table);
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
                let Some(table) = &self.table else { return Ok(()) };
                // The process that wrote to the WAL may have been killed before its sync: the copy must not be ahead of it.
                files::sync_file(&files::beside(&self.paths.db, "-wal")).map_err(ReadError::Failed)?;
                if let Err(e) = self.mirror.rewrite(head.seq, table.rows()) {
                    self.notices.push(format!("the ledger's copy is behind: {e}"));
                }
                Ok(())
            }
        }
    }

    /// Renames the damaged files, writes them anew, and opens what was written.
    fn rebuild(&mut self, why: &str, moment: &Moment) -> Result<(), LedgerError> {
        self.close();
        let damaged = Damaged {
            paths: &self.paths,
            terms: &self.terms,
            mirror: &mut self.mirror,
            mark: &mut self.mark,
            why,
        };
        let (table, pinned) = damaged.rebuild(moment)?;
        self.install(table)?;
        self.notices.push(format!(
            "the ledger {} was damaged ({why}); it was set aside and rebuilt from its copy{}",
            self.paths.db.display(),
            if pinned > 0 { format!("; {pinned} blocks are pinned") } else { String::new() }
        ));
        Ok(())
    }

    /// Takes over a database and a lease table that were made anew.
    fn install(&mut self, table: LeaseTable) -> Result<(), LedgerError> {
        let open = |e| match e {
            ReadError::Failed(e) => e,
            ReadError::Damaged(why) => LedgerError::io("use", &self.paths.db, std::io::Error::other(why)),
        };
        self.db = Some(Db::open(&self.paths.db).map_err(open)?);
        self.table = Some(table);
        Ok(())
    }

    /// Releases the lock of exclusive mode until the next change.
    pub(crate) fn release_lock(&mut self) {
        if self.held.is_some() {
            self.close();
            self.held = None;
        }
    }

    /// Closes the files, so that they can be renamed.
    fn close(&mut self) {
        self.db = None;
        self.table = None;
    }
}
