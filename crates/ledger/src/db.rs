//! The SQLite file: two tables of rows and one head that vouches for them.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ids::allocator::LeaseId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, Transaction, TransactionBehavior, params};
use xxhash_rust::xxh3::xxh3_64;

use crate::clock::BootId;
use crate::error::LedgerError;
use crate::files;
use crate::holder::Holder;
use crate::row::{LeaseRow, MemberRow, blocks, pair, pair_code, standing, tenure, tenure_code};

/// How many pages the log may have before a change has to see to it.
pub(crate) const LOG_PAGES: u32 = 100;

/// What the log is made with: its head, and a few more pages than it is folded at, each with a head of its own.
const LOG_BYTES: usize = 32 + 112 * (24 + 4096);

/// How long who stays waits for somebody who has the file open, and not the lock.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a process has the ledger open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stay {
    /// For as long as it likes, beside others.
    #[default]
    Long,
    /// For one change, alone: others wait until it is closed.
    Brief,
}

/// The layout this code writes. Older ones are read for ever.
pub(crate) const VERSION: u32 = 1;

const SCHEMA: &str = "
CREATE TABLE head (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  version INTEGER NOT NULL, seq INTEGER NOT NULL, count INTEGER NOT NULL,
  sum INTEGER NOT NULL, next INTEGER NOT NULL, pair INTEGER NOT NULL, own INTEGER NOT NULL
) STRICT;
CREATE TABLE lease (
  seq INTEGER PRIMARY KEY, id INTEGER NOT NULL,
  uid INTEGER NOT NULL, gid INTEGER NOT NULL, length INTEGER NOT NULL,
  standing INTEGER NOT NULL, until INTEGER NOT NULL,
  holder TEXT, shared INTEGER NOT NULL, tenure INTEGER NOT NULL, since INTEGER NOT NULL,
  boot TEXT NOT NULL, categories INTEGER, places TEXT NOT NULL, reason TEXT
) STRICT;
CREATE TABLE member (
  seq INTEGER PRIMARY KEY, lease INTEGER NOT NULL, holder TEXT NOT NULL,
  joined INTEGER NOT NULL, tenure INTEGER NOT NULL, since INTEGER NOT NULL, boot TEXT NOT NULL
) STRICT;";

/// What stands over all rows: the last sequence number, how many rows there are and what their
/// digests add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Head {
    pub(crate) seq: u64,
    pub(crate) count: u64,
    pub(crate) sum: u64,
    /// The next lease number.
    pub(crate) next: u64,
    /// The next category pair to try.
    pub(crate) pair: u32,
}

/// All rows, or those above some sequence number.
#[derive(Debug, Default, Clone)]
pub(crate) struct Rows {
    pub(crate) leases: Vec<LeaseRow>,
    pub(crate) members: Vec<MemberRow>,
}

/// What one transaction writes.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) rows: Rows,
    /// Sequence numbers of rows that are gone, replaced ones included.
    pub(crate) removed_leases: Vec<u64>,
    pub(crate) removed_members: Vec<u64>,
}

/// Why the file could not be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// It is not what was written: set it aside and rebuild.
    Damaged(String),
    /// The file may be fine, but we cannot get at it.
    Failed(LedgerError),
}

#[derive(Debug)]
pub(crate) struct Db {
    path: PathBuf,
    connection: Connection,
    /// How long somebody who has the file open, and not the lock, is waited for.
    patience: Duration,
    inode: u64,
}

impl Db {
    /// Opens the file, or makes it without any table. To be called with the lock held; for a brief stay, it is to
    /// be held for as long as this is.
    pub(crate) fn open(path: &Path, stay: Stay) -> Result<Self, ReadError> {
        let opened = match connect(path, stay) {
            // Somebody stays here for long.
            Err(e) if stay == Stay::Brief && e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                connect(path, Stay::Long)
            }
            opened => opened,
        };
        let (connection, patience) = opened.map_err(|e| judge("cannot open", path, e))?;
        keep_name_of_log(path, stay).map_err(ReadError::Failed)?;
        Ok(Self { path: path.to_owned(), inode: inode(path).unwrap_or(0), connection, patience })
    }

    /// Makes empty tables where there are none.
    pub(crate) fn create_tables(&self) -> Result<(), ReadError> {
        let create = || -> rusqlite::Result<()> {
            let tables: u32 =
                self.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
            if tables > 0 {
                return Ok(());
            }
            let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
            transaction.execute_batch(SCHEMA)?;
            write_head(&transaction, Head { next: 1, ..Head::default() })?;
            transaction.commit()
        };
        create().map_err(|e| judge("cannot make tables in", &self.path, e))
    }

    /// Whether the file we have open is still the one that the path names.
    pub(crate) fn current(&self) -> bool {
        inode(&self.path) == Some(self.inode)
    }

    pub(crate) fn head(&self) -> Result<Head, ReadError> {
        let sql = "SELECT version, seq, count, sum, next, pair, own FROM head WHERE one = 1";
        let read = |r: &Row<'_>| -> rusqlite::Result<(u32, Head, i64)> {
            let head = Head {
                seq: r.get(1)?,
                count: r.get(2)?,
                sum: r.get::<_, i64>(3)?.cast_unsigned(),
                next: r.get(4)?,
                pair: r.get(5)?,
            };
            Ok((r.get(0)?, head, r.get(6)?))
        };
        let row = self.connection.prepare_cached(sql).and_then(|mut s| s.query_row([], read));
        let (version, head, own) = row.map_err(|e| judge("cannot read", &self.path, e))?;
        if own_digest(version, head) != own {
            return Err(ReadError::Damaged("its head does not match its checksum".to_owned()));
        }
        if version > VERSION {
            let path = self.path.clone();
            return Err(ReadError::Failed(LedgerError::TooNew { path, found: version, known: VERSION }));
        }
        Ok(head)
    }

    /// The rows above `seq`, in order.
    pub(crate) fn rows_above(&self, seq: u64) -> Result<Rows, ReadError> {
        let failed = |e| judge("cannot read", &self.path, e);
        let mut rows = Rows::default();
        let sql = "SELECT seq, id, uid, gid, length, standing, until, holder, shared, tenure, since, boot, \
                   categories, places, reason FROM lease WHERE seq > ?1 ORDER BY seq";
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut found = statement.query([seq]).map_err(failed)?;
        while let Some(row) = found.next().map_err(failed)? {
            rows.leases.push(lease_row(row).map_err(failed)?);
        }
        let sql =
            "SELECT seq, lease, holder, joined, tenure, since, boot FROM member WHERE seq > ?1 ORDER BY seq";
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut found = statement.query([seq]).map_err(failed)?;
        while let Some(row) = found.next().map_err(failed)? {
            rows.members.push(member_row(row).map_err(failed)?);
        }
        Ok(rows)
    }

    /// All rows, checked against the head and the file's own structure.
    pub(crate) fn load(&self) -> Result<(Head, Rows), ReadError> {
        let head = self.head()?;
        let rows = self.rows_above(0)?;
        let count = rows.leases.len() + rows.members.len();
        let digests =
            rows.leases.iter().map(LeaseRow::digest).chain(rows.members.iter().map(MemberRow::digest));
        let sum = digests.fold(0u64, u64::wrapping_add);
        if u64::try_from(count) != Ok(head.count) || sum != head.sum {
            return Err(ReadError::Damaged("its rows do not match its head".to_owned()));
        }
        Ok((head, rows))
    }

    /// A header that claims a format of the future makes SQLite refuse to write.
    pub(crate) fn check_header(&self) -> Result<(), ReadError> {
        let failed = |e| judge("cannot check", &self.path, e);
        let writable = std::fs::metadata(&self.path).is_ok_and(|m| !m.permissions().readonly());
        if writable && self.connection.is_readonly("main").map_err(failed)? {
            return Err(ReadError::Damaged("its header claims a format that cannot be written".to_owned()));
        }
        Ok(())
    }

    /// Asks SQLite whether the file's pages hang together, which the digests cannot see.
    pub(crate) fn check_structure(&self) -> Result<(), ReadError> {
        let failed = |e| judge("cannot check", &self.path, e);
        let found: String =
            self.connection.query_row("PRAGMA quick_check(1)", [], |r| r.get(0)).map_err(failed)?;
        if found != "ok" {
            return Err(ReadError::Damaged(found));
        }
        Ok(())
    }

    /// Folds the log into the file itself, so that the file can be renamed alone.
    pub(crate) fn fold_in(self) -> Result<(), LedgerError> {
        let folded = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        folded.map_err(|e| LedgerError::storage("cannot fold", &self.path, e))
    }

    /// How many pages are in the log.
    pub(crate) fn log_pages(&self) -> u32 {
        self.checkpoint("NOOP").map_or(0, |(_, log, _)| log)
    }

    /// Folds the log into the file and begins it anew: the next opener has less to read. It keeps its length: to write
    /// over what is there takes less time than to write behind it.
    ///
    /// That it was folded in is known only to those who have the file open, until something is written at its beginning:
    /// else whoever comes next would read all of it once more, and append.
    pub(crate) fn fold_log(&self, head: Head) {
        // Not now if somebody is reading in it; nor does anything depend on it.
        let _ = self.connection.busy_timeout(Duration::ZERO);
        if self.checkpoint("RESTART").is_ok_and(|(busy, log, folded)| busy == 0 && log == folded) {
            let _ = self.write(&Changes::default(), head);
        }
        let _ = self.connection.busy_timeout(self.patience);
    }

    /// Whether somebody was in the way, how many pages the log has, and how many of them are in the file, too.
    fn checkpoint(&self, mode: &str) -> rusqlite::Result<(u32, u32, u32)> {
        let pages = |r: &Row<'_>| Ok((r.get(0)?, r.get(1)?, r.get(2)?));
        self.connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], pages)
    }

    /// Writes the rows and the head in one transaction, and returns once both are on disk.
    pub(crate) fn write(&self, changes: &Changes, head: Head) -> Result<(), ReadError> {
        let written = || -> rusqlite::Result<()> {
            let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
            write_changes(&transaction, changes)?;
            write_head(&transaction, head)?;
            transaction.commit()
        };
        written().map_err(|e| judge("cannot write", &self.path, e))
    }
}

fn connect(path: &Path, stay: Stay) -> rusqlite::Result<(Connection, Duration)> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // Another opener would have to wait for a checkpoint on close; the next writer makes it instead.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    if stay == Stay::Brief {
        // Alone with the file, SQLite keeps the index of its log in memory. Shared, it lies in a file beside it, which
        // every first opener empties; where the disk is being written to, that waits for milliseconds.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    }
    // The lock of ours comes first: SQLite's own is never contended for long.
    let patience = if stay == Stay::Brief { Duration::ZERO } else { PATIENCE };
    connection.busy_timeout(patience)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // For a brief stay it is folded in when nobody waits for it.
    connection.pragma_update(None, "wal_autocheckpoint", if stay == Stay::Brief { 0 } else { LOG_PAGES })?;
    connection.set_prepared_statement_cache_capacity(16);
    Ok((connection, patience))
}

fn write_changes(t: &Transaction<'_>, changes: &Changes) -> rusqlite::Result<()> {
    for row in &changes.rows.leases {
        write_lease(t, row)?;
    }
    for row in &changes.rows.members {
        let sql = "INSERT INTO member VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        t.prepare_cached(sql)?.execute(params![
            row.seq,
            row.lease.0,
            row.holder.as_str(),
            row.joined,
            tenure_code(row.tenure),
            row.since,
            row.boot.0,
        ])?;
    }
    // Last, because a row may be replaced in the transaction that made it.
    for seq in &changes.removed_leases {
        t.prepare_cached("DELETE FROM lease WHERE seq = ?1")?.execute([seq])?;
    }
    for seq in &changes.removed_members {
        t.prepare_cached("DELETE FROM member WHERE seq = ?1")?.execute([seq])?;
    }
    Ok(())
}

fn write_lease(t: &Transaction<'_>, row: &LeaseRow) -> rusqlite::Result<()> {
    let (code, until) = row.standing_code();
    let sql = "INSERT INTO lease VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
    t.prepare_cached(sql)?.execute(params![
        row.seq,
        row.id.0,
        row.uids.base().get(),
        row.gids.base().get(),
        row.uids.length().get(),
        code,
        until,
        row.holder.as_ref().map(Holder::as_str),
        row.shared,
        tenure_code(row.tenure),
        row.since,
        row.boot.0,
        row.categories.map(pair_code),
        places_text(&row.places),
        row.reason,
    ])?;
    Ok(())
}

fn write_head(t: &Transaction<'_>, head: Head) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO head (one, version, seq, count, sum, next, pair, own) \
               VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    t.prepare_cached(sql)?.execute(params![
        VERSION,
        head.seq,
        head.count,
        head.sum.cast_signed(),
        head.next,
        head.pair,
        own_digest(VERSION, head),
    ])?;
    Ok(())
}

fn own_digest(version: u32, head: Head) -> i64 {
    let Head { seq, count, sum, next, pair } = head;
    let text = format!("{version} {seq} {count} {sum} {next} {pair}");
    xxh3_64(text.as_bytes()).cast_signed()
}

/// Most leases record no place: they cost no JSON.
fn places_text(places: &[String]) -> String {
    if places.is_empty() { String::new() } else { serde_json::to_string(places).unwrap_or_default() }
}

fn places(text: &str) -> Option<Vec<String>> {
    if text.is_empty() { Some(Vec::new()) } else { serde_json::from_str(text).ok() }
}

/// What cannot be turned into a row is damage, whatever the column says.
fn lease_row(r: &Row<'_>) -> rusqlite::Result<LeaseRow> {
    let (uids, gids) = blocks(r.get(2)?, r.get(3)?, r.get(4)?).map_err(|_| garbled(2))?;
    let holder: Option<String> = r.get(7)?;
    let code: Option<u32> = r.get(12)?;
    Ok(LeaseRow {
        seq: r.get(0)?,
        id: LeaseId(r.get(1)?),
        uids,
        gids,
        standing: standing(r.get(5)?, r.get(6)?).ok_or_else(|| garbled(5))?,
        holder: holder.map(Holder::new).transpose().map_err(|_| garbled(7))?,
        shared: r.get(8)?,
        tenure: tenure(r.get(9)?).ok_or_else(|| garbled(9))?,
        since: r.get(10)?,
        boot: BootId(r.get(11)?),
        categories: code.map(|c| pair(c).ok_or_else(|| garbled(12))).transpose()?,
        places: places(r.get_ref(13)?.as_str().map_err(|_| garbled(13))?).ok_or_else(|| garbled(13))?,
        reason: r.get(14)?,
    })
}

fn member_row(r: &Row<'_>) -> rusqlite::Result<MemberRow> {
    Ok(MemberRow {
        seq: r.get(0)?,
        lease: LeaseId(r.get(1)?),
        holder: Holder::new(r.get::<_, String>(2)?).map_err(|_| garbled(2))?,
        joined: r.get(3)?,
        tenure: tenure(r.get(4)?).ok_or_else(|| garbled(4))?,
        since: r.get(5)?,
        boot: BootId(r.get(6)?),
    })
}

fn garbled(column: usize) -> rusqlite::Error {
    rusqlite::Error::InvalidColumnType(column, "garbled".to_owned(), rusqlite::types::Type::Null)
}

/// Tells damage from a file that we just cannot get at.
fn judge(what: &'static str, path: &Path, e: rusqlite::Error) -> ReadError {
    let failed = matches!(
        e.sqlite_error_code(),
        Some(
            ErrorCode::PermissionDenied
                | ErrorCode::OperationAborted
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OutOfMemory
                | ErrorCode::ReadOnly
                | ErrorCode::OperationInterrupted
                | ErrorCode::SystemIoFailure
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::NoLargeFileSupport
                | ErrorCode::AuthorizationForStatementDenied
        )
    );
    if failed {
        ReadError::Failed(LedgerError::storage(what, path, e))
    } else {
        ReadError::Damaged(e.to_string())
    }
}

/// What is written to the log counts only if its name is on disk, too. Whoever finds it empty sees to that,
/// so that nobody writes to one whose name is not.
fn keep_name_of_log(path: &Path, stay: Stay) -> Result<(), LedgerError> {
    let log = files::beside(path, "-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return Ok(());
    }
    durable::sync_parent(path)?;
    if stay == Stay::Brief {
        make_room(&log);
    }
    Ok(())
}

/// What an empty log will need is made now: to write over it later takes no new blocks of the disk, whose own log would have to
/// be waited for. Zeros are no log to SQLite. Nothing depends on it, and a disk that is too small for it is left as it was.
fn make_room(log: &Path) {
    let Ok(mut file) = std::fs::OpenOptions::new().write(true).open(log) else { return };
    if file.write_all(&vec![0; LOG_BYTES]).and_then(|()| file.sync_all()).is_err() {
        let _ = file.set_len(0);
    }
}

fn inode(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|m| m.ino())
}
