//! The state directory was there already, and open to all users, as a package or an administrator makes directories.
//! SQLite made `ledger.db` and the files beside it with mode 0644. A user who could open one locked all of it, for which
//! to read is enough, and no pod of the node got a lease any more.

use crate::common;
use crate::crash;

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::{default_pool, lease};
use crash::{act, open_at, ops};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

const NOBODY: u32 = 65_534;

/// A directory that was there before the ledger.
fn open_directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    dir
}

fn files(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn modes(dir: &Path) -> Vec<(PathBuf, u32)> {
    let mode = |path: &PathBuf| path.metadata().unwrap().permissions().mode() & 0o7777;
    files(dir).into_iter().map(|path| (path.clone(), mode(&path))).collect()
}

/// What an ordinary user has opened and locked; it stays so until this is dropped. The locks are this process's: the
/// ledger is another's.
fn locked_by_a_user(dir: &Path) -> Vec<(PathBuf, File)> {
    let all = files(dir);
    let attack = move || {
        set_thread_groups(&[]).unwrap();
        set_thread_gid(Gid::from_raw(NOBODY)).unwrap();
        set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
        let lock = |path: PathBuf| {
            let file = File::open(&path).ok()?;
            fcntl_lock(&file, FlockOperation::NonBlockingLockShared).unwrap();
            Some((path, file))
        };
        all.into_iter().filter_map(lock).collect()
    };
    std::thread::spawn(attack).join().unwrap()
}

#[test]
fn a_user_cannot_stop_leases_with_a_lock_on_a_file_of_the_ledger() {
    let dir = open_directory();
    act(dir.path(), &ops(&["lease:a"]));
    assert!(files(dir.path()).iter().any(|path| path.ends_with("ledger.db")));
    let locked = locked_by_a_user(dir.path());
    act(dir.path(), &ops(&["lease:b"]));
    assert!(locked.is_empty(), "{locked:?}");
}

#[test]
fn every_file_of_the_ledger_is_its_owners_alone() {
    let dir = open_directory();
    let ledger = open_at(dir.path(), default_pool());
    lease(&ledger, "a");
    let found = modes(dir.path());
    let names = ["ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.lock", "copies", "mark"];
    for name in names {
        assert!(found.iter().any(|(path, _)| path.ends_with(name)), "{name} is not there: {found:?}");
    }
    assert!(found.iter().all(|(_, mode)| *mode == 0o600), "{found:?}");
}

#[test]
fn files_that_an_earlier_version_left_open_to_users_are_taken_from_them() {
    let dir = open_directory();
    let ledger = open_at(dir.path(), default_pool());
    lease(&ledger, "a");
    drop(ledger);
    for path in files(dir.path()) {
        std::fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
    let ledger = open_at(dir.path(), default_pool());
    lease(&ledger, "b");
    let found = modes(dir.path());
    assert!(found.len() >= 4 && found.iter().all(|(_, mode)| *mode == 0o600), "{found:?}");
}
