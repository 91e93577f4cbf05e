//! The sockets in the directory of plugins.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// How far below the directory sockets are looked for.
const DEEPEST: usize = 4;
/// How many files are looked at.
const MOST: usize = 1024;

/// Tells a socket from another one that was made in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    seconds: i64,
    nanoseconds: i64,
}

/// The sockets in a directory and below, but for those whose names begin with a dot. Links are not followed. What cannot be
/// read is not there.
pub(super) fn sockets(dir: &Path) -> BTreeMap<PathBuf, Stamp> {
    let (mut found, mut room) = (BTreeMap::new(), MOST);
    below(dir, DEEPEST, &mut room, &mut found);
    found
}

fn below(dir: &Path, deeper: usize, room: &mut usize, found: &mut BTreeMap<PathBuf, Stamp>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if *room == 0 {
            return;
        }
        *room -= 1;
        let path = entry.path();
        let Ok(stat) = fs::symlink_metadata(&path) else { continue };
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if stat.is_dir() && deeper > 0 {
            below(&path, deeper - 1, room, found);
        } else if stat.file_type().is_socket() {
            let stamp = Stamp { inode: stat.ino(), seconds: stat.ctime(), nanoseconds: stat.ctime_nsec() };
            found.insert(path, stamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn sockets_are_found_below_and_what_is_hidden_or_a_link_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let socket = |path: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            drop(UnixListener::bind(path).unwrap());
        };
        for path in
            ["a.sock", "deep/b.sock", ".hidden.sock", ".hidden/c.sock", "1/2/3/4/e.sock", "1/2/3/4/5/f.sock"]
        {
            socket(path);
        }
        fs::write(dir.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("a.sock", dir.path().join("link.sock")).unwrap();
        let names = |found: &BTreeMap<PathBuf, Stamp>| -> Vec<String> {
            found.keys().map(|path| path.strip_prefix(dir.path()).unwrap().display().to_string()).collect()
        };
        let found = sockets(dir.path());
        assert_eq!(names(&found), ["1/2/3/4/e.sock", "a.sock", "deep/b.sock"]);
        fs::remove_file(dir.path().join("a.sock")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        socket("a.sock");
        let again = sockets(dir.path());
        assert_ne!(again[&dir.path().join("a.sock")], found[&dir.path().join("a.sock")]);
        assert_eq!(again[&dir.path().join("deep/b.sock")], found[&dir.path().join("deep/b.sock")]);
    }

    #[test]
    fn a_directory_with_very_many_files_is_not_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        for index in 0..MOST + 10 {
            fs::write(dir.path().join(index.to_string()), "").unwrap();
        }
        assert!(sockets(dir.path()).is_empty() && sockets(&dir.path().join("missing")).is_empty());
    }
}
