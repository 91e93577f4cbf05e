//! The SQLite file: three tables of rows and one head that vouches for them.

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
use crate::row::{
    LeaseRow, MemberRow, PairRow, blocks, origin, origin_code, pair, pair_code, pair_standing,
    pair_standing_code, standing, tenure, tenure_code,
};

/// How many pages SQLite's log may have before it is checkpointed.
const LOG_PAGES: u32 = 100;

/// How long a process is waited for that has the file open without our lock.
const PATIENCE: Duration = Duration::from_secs(5);

/// The layout this code writes. Older ones are read for ever.
pub(crate) const VERSION: u32 = 2;

/// The first layout with category pairs that have no block.
const WITH_PAIRS: u32 = 2;

const PAIR_TABLE: &str = "
CREATE TABLE category_pair (
  seq INTEGER PRIMARY KEY, holder TEXT NOT NULL, pair INTEGER NOT NULL, origin INTEGER NOT NULL,
  standing INTEGER NOT NULL, place TEXT NOT NULL, since INTEGER NOT NULL, boot TEXT NOT NULL
) STRICT;";

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
    pub(crate) pairs: Vec<PairRow>,
}

impl Rows {
    pub(crate) fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.members.is_empty() && self.pairs.is_empty()
    }

    /// How many there are, and what their digests add up to.
    pub(crate) fn tally(&self) -> (u64, u64) {
        let leases = self.leases.iter().map(LeaseRow::digest);
        let members = self.members.iter().map(MemberRow::digest);
        let digests = leases.chain(members).chain(self.pairs.iter().map(PairRow::digest));
        digests.fold((0, 0), |(count, sum), digest| (count + 1, sum.wrapping_add(digest)))
    }
}

/// What one transaction writes.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) rows: Rows,
    /// Sequence numbers of rows that are gone, replaced ones included.
    pub(crate) removed_leases: Vec<u64>,
    pub(crate) removed_members: Vec<u64>,
    pub(crate) removed_pairs: Vec<u64>,
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
    inode: u64,
}

impl Db {
    /// Opens the file, or makes it without any table. To be called with the lock held.
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        let connection = connect(path).map_err(|e| judge("cannot open", path, e))?;
        keep_name_of_log(path).map_err(ReadError::Failed)?;
        Ok(Self { path: path.to_owned(), inode: inode(path).unwrap_or(0), connection })
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
            transaction.execute_batch(PAIR_TABLE)?;
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
        Ok(self.versioned_head()?.1)
    }

    /// The head and the version of the layout.
    fn versioned_head(&self) -> Result<(u32, Head), ReadError> {
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
        Ok((version, head))
    }

    /// Brings a file of an older layout to this one, in one transaction. To be called once it was found undamaged.
    pub(crate) fn migrate(&self) -> Result<(), ReadError> {
        let (version, head) = self.versioned_head()?;
        if version >= WITH_PAIRS {
            return Ok(());
        }
        let migrated = || -> rusqlite::Result<()> {
            let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
            transaction.execute_batch(PAIR_TABLE)?;
            write_head(&transaction, head)?;
            transaction.commit()
        };
        migrated().map_err(|e| judge("cannot migrate", &self.path, e))
    }

    /// The rows above `seq`, in order.
    pub(crate) fn rows_above(&self, seq: u64) -> Result<Rows, ReadError> {
        self.rows_of(VERSION, seq)
    }

    fn rows_of(&self, version: u32, seq: u64) -> Result<Rows, ReadError> {
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
        if version < WITH_PAIRS {
            return Ok(rows);
        }
        let sql = "SELECT seq, holder, pair, origin, standing, place, since, boot FROM category_pair \
                   WHERE seq > ?1 ORDER BY seq";
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut found = statement.query([seq]).map_err(failed)?;
        while let Some(row) = found.next().map_err(failed)? {
            rows.pairs.push(pair_row(row).map_err(failed)?);
        }
        Ok(rows)
    }

    /// All rows, checked against the head and the file's own structure.
    pub(crate) fn load(&self) -> Result<(Head, Rows), ReadError> {
        let (version, head) = self.versioned_head()?;
        let rows = self.rows_of(version, 0)?;
        if rows.tally() != (head.count, head.sum) {
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

    /// Checkpoints the WAL, so that the database file can be renamed alone.
    pub(crate) fn checkpoint_and_close(self) -> Result<(), LedgerError> {
        let checkpoint = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        checkpoint.map_err(|e| LedgerError::storage("cannot checkpoint the WAL of", &self.path, e))
    }

    /// Checkpoints the log and truncates it if it is long. To be called on open: that a log was checkpointed is known only
    /// to the connections that are open then, and a process that opens the file later appends to what it finds.
    pub(crate) fn truncate_long_log(&self) {
        if self.checkpoint("NOOP").is_ok_and(|pages| pages > LOG_PAGES) {
            // Not now if another process is reading in it; the next one that opens the file tries again.
            let _ = self.connection.busy_timeout(Duration::ZERO);
            let _ = self.checkpoint("TRUNCATE");
            let _ = self.connection.busy_timeout(PATIENCE);
        }
    }

    /// How many pages the log has.
    fn checkpoint(&self, mode: &str) -> rusqlite::Result<u32> {
        self.connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get(1))
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

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // Another opener would have to wait for a checkpoint on close; the next writer makes it instead.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // The lock of ours comes first: SQLite's own is never contended for long.
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.set_prepared_statement_cache_capacity(16);
    Ok(connection)
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
    for row in &changes.rows.pairs {
        let sql = "INSERT INTO category_pair VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        t.prepare_cached(sql)?.execute(params![
            row.seq,
            row.holder.as_str(),
            pair_code(row.pair),
            origin_code(row.origin),
            pair_standing_code(row.standing),
            row.place,
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
    for seq in &changes.removed_pairs {
        t.prepare_cached("DELETE FROM category_pair WHERE seq = ?1")?.execute([seq])?;
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

fn pair_row(r: &Row<'_>) -> rusqlite::Result<PairRow> {
    Ok(PairRow {
        seq: r.get(0)?,
        holder: Holder::new(r.get::<_, String>(1)?).map_err(|_| garbled(1))?,
        pair: pair(r.get(2)?).ok_or_else(|| garbled(2))?,
        origin: origin(r.get(3)?).ok_or_else(|| garbled(3))?,
        standing: pair_standing(r.get(4)?).ok_or_else(|| garbled(4))?,
        place: r.get(5)?,
        since: r.get(6)?,
        boot: BootId(r.get(7)?),
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

/// Syncs the directory entry of an empty WAL: a commit in the WAL is durable only if the directory entry is.
fn keep_name_of_log(path: &Path) -> Result<(), LedgerError> {
    let log = files::beside(path, "-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return Ok(());
    }
    Ok(durable::sync_parent(path)?)
}

fn inode(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|m| m.ino())
}
