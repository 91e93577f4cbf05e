//! Manifests as a source of pods: files, and directories of files, watched.
//!
//! A file is read once it is complete: immediately if it is renamed into place, and when its writer has
//! closed it if it is written in place. A file that cannot be read or parsed, or that is empty, keeps its
//! previous objects. When a file disappears from a directory, its objects are removed. When a file that was
//! named itself disappears, its objects are kept, because its loss may be an accident.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use manifest::{Finding, Object, Reading};
use rustix::fs::inotify::WatchFlags;
use tokio::time::Instant;

use crate::ports::{BoxFuture, PodSource};
use crate::sources::manifests::{files, limited};
use crate::sources::watch::{Seen, Watch};

/// Period of a scan of all files without an event of inotify, for changes that inotify does not report.
const RESCAN: Duration = Duration::from_secs(20);
/// A file that has not changed for so long is complete, unless a writer has it open.
const SETTLED: Duration = Duration::from_millis(100);
/// Maximum time to wait for a writer that keeps a file open.
const PATIENCE: Duration = Duration::from_secs(5);

/// The objects of all files that can be read, and the problems with the others.
#[derive(Debug)]
pub struct FileSet {
    /// The objects. A file with a problem keeps its previous ones.
    pub objects: Vec<Object>,
    /// Problems with files.
    pub problems: Vec<FileProblem>,
}

/// Why a file keeps its previous objects.
#[derive(Debug, Clone, PartialEq)]
pub enum FileProblem {
    /// A file or directory cannot be read.
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// A file is empty. The removal of a file stops its pods; its truncation does not.
    Empty {
        /// Its path.
        path: PathBuf,
    },
    /// A file is not a valid manifest.
    Invalid(Vec<Finding>),
}

/// A source of pods from files and directories of files.
pub struct FileSource {
    names: Vec<PathBuf>,
    rescan: Duration,
    watch: Option<Watch>,
    /// The objects of each file when it was last readable, by its path as shown.
    last: BTreeMap<String, Vec<Object>>,
    /// The objects of files that cannot be read again: standard input and pipes.
    fixed: Vec<Object>,
    stamps: Option<Stamps>,
    /// Whether there is a reported change that has not been delivered.
    is_changed: bool,
    writing: HashMap<OsString, Instant>,
    next_scan: Instant,
}

type Stamps = BTreeMap<PathBuf, Option<Stamp>>;

/// Metadata of a file on disk, which changes with its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileSource {
    /// A source of these files and directories; `first` has the objects that were already read from them.
    /// Objects of standard input (`-`) and of pipes are kept. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(names: &[PathBuf], first: &Reading) -> Self {
        let is_watched = |name: &&PathBuf| name.is_dir() || name.is_file();
        let names: Vec<PathBuf> = names.iter().filter(is_watched).cloned().collect();
        let mut last: BTreeMap<String, Vec<Object>> = BTreeMap::new();
        let mut fixed = Vec::new();
        for object in &first.objects {
            let path = Path::new(&*object.file);
            if names.iter().any(|name| name == path || path.parent() == Some(name)) {
                last.entry(object.file.to_string()).or_default().push(object.clone());
            } else {
                fixed.push(object.clone());
            }
        }
        Self {
            names,
            rescan: RESCAN,
            // Without inotify the periodic scan finds changes.
            watch: Watch::new().ok(),
            last,
            fixed,
            stamps: None,
            is_changed: true,
            writing: HashMap::new(),
            next_scan: Instant::now(),
        }
    }

    /// Waits until the files may have changed.
    async fn wait(&mut self) {
        let Some(watch) = &self.watch else { return tokio::time::sleep_until(self.next_scan).await };
        tokio::select! {
            seen = watch.changed() => match seen {
                Ok(seen) => self.note(seen),
                Err(_) => self.watch = None,
            },
            () = tokio::time::sleep_until(self.next_scan) => {}
        }
    }

    fn note(&mut self, seen: Vec<Seen>) {
        for one in seen {
            match one {
                Seen::Writing(name) => {
                    self.writing.entry(name).or_insert_with(Instant::now);
                }
                Seen::Closed(name) => {
                    self.writing.remove(&name);
                }
                Seen::Other => {}
            }
        }
        self.is_changed = true;
    }

    /// Waits until no file changes any more, and returns the files' metadata.
    async fn settled(&mut self) -> Stamps {
        loop {
            self.add_watches();
            let stamps = self.scan();
            let settled = tokio::time::sleep(SETTLED);
            match &self.watch {
                Some(watch) => tokio::select! {
                    seen = watch.changed() => match seen {
                        Ok(seen) => self.note(seen),
                        Err(_) => self.watch = None,
                    },
                    () = settled => {}
                },
                None => settled.await,
            }
            self.writing.retain(|_, since| since.elapsed() < PATIENCE);
            if self.writing.is_empty() && self.scan() == stamps {
                return stamps;
            }
        }
    }

    /// Watches the named directories, those of named files, and the targets of links. It is called again
    /// after each change, because a replaced directory is a new inode.
    fn add_watches(&self) {
        let Some(watch) = &self.watch else { return };
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::ONLYDIR;
        let mut dirs = BTreeSet::new();
        for name in &self.names {
            dirs.extend(name.is_dir().then(|| name.clone()));
            let target = name.canonicalize().ok();
            for path in [Some(name), target.as_ref()].into_iter().flatten() {
                dirs.extend(
                    path.parent()
                        .map(|dir| if dir == Path::new("") { Path::new(".") } else { dir }.to_owned()),
                );
            }
        }
        // The periodic scan covers a directory that cannot be watched.
        dirs.iter().for_each(|dir| drop(watch.add(dir, flags)));
    }

    fn scan(&self) -> Stamps {
        let mut all = Stamps::new();
        for name in &self.names {
            all.insert(name.clone(), None);
            for file in files(name).unwrap_or_default() {
                let stamp = stamp(&file);
                all.insert(file, stamp);
            }
        }
        all
    }

    fn read(&mut self) -> FileSet {
        let mut problems = Vec::new();
        let mut kept: BTreeMap<String, Vec<Object>> = BTreeMap::new();
        for name in &self.names {
            let found = match files(name) {
                Ok(found) => found,
                Err(error) => {
                    problems.push(FileProblem::Unreadable { path: name.clone(), cause: error.to_string() });
                    let is_of =
                        |file: &str| Path::new(file) == name || Path::new(file).parent() == Some(name);
                    let of_name = self.last.iter().filter(|(file, _)| is_of(file));
                    kept.extend(of_name.map(|(file, objects)| (file.clone(), objects.clone())));
                    continue;
                }
            };
            for path in found {
                let shown = path.display().to_string();
                let objects = match read_one(&path) {
                    Ok(objects) => objects,
                    Err(problem) => {
                        problems.push(problem);
                        self.last.get(&shown).cloned().unwrap_or_default()
                    }
                };
                kept.insert(shown, objects);
            }
        }
        self.last = kept;
        let objects = self.fixed.iter().chain(self.last.values().flatten()).cloned().collect();
        FileSet { objects, problems }
    }
}

impl PodSource for FileSource {
    type Set = FileSet;

    /// Cancel safe: the next call resumes where a dropped one stopped.
    fn next(&mut self) -> BoxFuture<'_, Option<FileSet>> {
        Box::pin(async move {
            if self.names.is_empty() && self.stamps.is_some() {
                return std::future::pending().await;
            }
            loop {
                while !self.is_changed && Instant::now() < self.next_scan {
                    self.wait().await;
                }
                let stamps = self.settled().await;
                self.is_changed = false;
                self.next_scan = Instant::now() + self.rescan;
                if self.stamps.as_ref() != Some(&stamps) {
                    self.stamps = Some(stamps);
                    return Some(self.read());
                }
            }
        })
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = path.metadata().ok()?;
    Some(Stamp {
        device: found.dev(),
        inode: found.ino(),
        size: found.len(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

fn read_one(path: &Path) -> Result<Vec<Object>, FileProblem> {
    let unreadable =
        |error: io::Error| FileProblem::Unreadable { path: path.to_owned(), cause: error.to_string() };
    let bytes = std::fs::File::open(path).and_then(limited).map_err(unreadable)?;
    if bytes.trim_ascii().is_empty() {
        return Err(FileProblem::Empty { path: path.to_owned() });
    }
    let reading = manifest::read(&path.display().to_string(), &bytes);
    if reading.findings.is_empty() {
        Ok(reading.objects)
    } else {
        Err(FileProblem::Invalid(reading.findings))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    fn pod(name: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: a, image: i}}]}}\n"
        )
    }

    fn names(set: &FileSet) -> Vec<&str> {
        set.objects.iter().map(Object::name).collect()
    }

    /// A source on a directory with the pod `one`, its first set taken.
    async fn started() -> (TempDir, FileSource) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("one.yaml"), pod("one")).unwrap();
        let mut source = FileSource::new(&[dir.path().to_owned()], &Reading::default());
        assert_eq!(names(&source.next().await.unwrap()), ["one"]);
        (dir, source)
    }

    /// The next set, which must come long before the periodic scan.
    async fn soon(source: &mut FileSource) -> FileSet {
        tokio::time::timeout(RESCAN / 4, source.next()).await.expect("no change was noticed").unwrap()
    }

    /// Waits for a set of these names: a slow machine may see an intermediate state.
    async fn until(source: &mut FileSource, expected: &[&str]) -> FileSet {
        loop {
            let set = soon(source).await;
            if names(&set) == expected {
                return set;
            }
        }
    }

    async fn nothing_comes(source: &mut FileSource) {
        let next = tokio::time::timeout(Duration::from_millis(500), source.next()).await;
        assert!(next.is_err(), "a set came: {next:?}");
    }

    #[tokio::test]
    async fn files_that_come_change_and_go_are_noticed() {
        let (dir, mut source) = started().await;
        fs::write(dir.path().join("two.yaml"), pod("two")).unwrap();
        until(&mut source, &["one", "two"]).await;
        let next = dir.path().join("next");
        fs::write(&next, pod("three")).unwrap();
        fs::rename(next, dir.path().join("two.yaml")).unwrap();
        until(&mut source, &["one", "three"]).await;
        fs::remove_file(dir.path().join("one.yaml")).unwrap();
        until(&mut source, &["three"]).await;
        nothing_comes(&mut source).await;
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_loses_no_change() {
        let (dir, mut source) = started().await;
        fs::write(dir.path().join("two.yaml"), pod("two")).unwrap();
        for _ in 0..20 {
            if let Ok(set) = tokio::time::timeout(Duration::from_millis(5), source.next()).await {
                return assert_eq!(names(&set.unwrap()), ["one", "two"]);
            }
        }
        until(&mut source, &["one", "two"]).await;
    }

    /// A manifest whose first half is a valid pod, too: it must not be read before its second half is
    /// written.
    #[tokio::test]
    async fn a_file_that_is_being_written_is_read_when_it_is_whole() {
        let (dir, mut source) = started().await;
        let mut file = fs::File::create(dir.path().join("one.yaml")).unwrap();
        file.write_all(pod("half").as_bytes()).unwrap();
        nothing_comes(&mut source).await;
        file.write_all(format!("---\n{}", pod("whole")).as_bytes()).unwrap();
        drop(file);
        until(&mut source, &["half", "whole"]).await;
    }

    #[tokio::test]
    async fn a_file_that_makes_no_sense_keeps_what_it_had_and_others_go_on() {
        let (dir, mut source) = started().await;
        fs::write(dir.path().join("one.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {nmae: one}\n").unwrap();
        fs::write(dir.path().join("two.yaml"), pod("two")).unwrap();
        let set = soon(&mut source).await;
        assert_eq!(names(&set), ["one", "two"]);
        assert!(matches!(&set.problems[..], [FileProblem::Invalid(_)]), "{:?}", set.problems);
        fs::write(dir.path().join("one.yaml"), "\n").unwrap();
        let set = soon(&mut source).await;
        assert_eq!(names(&set), ["one", "two"]);
        assert!(matches!(&set.problems[..], [FileProblem::Empty { .. }]), "{:?}", set.problems);
    }

    /// An update like that of a ConfigMap volume: the files are links into a directory that is itself a link.
    #[tokio::test]
    async fn a_swapped_link_is_noticed() {
        let (dir, mut source) = started().await;
        let at = |name: &str| dir.path().join(name);
        for (version, name) in [("..1", "first"), ("..2", "second")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("linked.yaml"), pod(name)).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/linked.yaml", at("linked.yaml")).unwrap();
        until(&mut source, &["first", "one"]).await;
        symlink("..2", at("..new")).unwrap();
        fs::rename(at("..new"), at("..data")).unwrap();
        until(&mut source, &["second", "one"]).await;
    }

    #[tokio::test]
    async fn a_named_file_that_is_missing_keeps_its_objects_and_a_replaced_directory_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let (file, sub) = (dir.path().join("named.yaml"), dir.path().join("pods"));
        fs::write(&file, pod("named")).unwrap();
        fs::create_dir(&sub).unwrap();
        fs::write(sub.join("a.yaml"), pod("inside")).unwrap();
        let mut source = FileSource::new(&[file.clone(), sub.clone()], &Reading::default());
        assert_eq!(names(&source.next().await.unwrap()), ["named", "inside"]);
        fs::remove_file(&file).unwrap();
        let set = soon(&mut source).await;
        assert_eq!(names(&set), ["named", "inside"]);
        assert!(matches!(&set.problems[..], [FileProblem::Unreadable { .. }]), "{:?}", set.problems);
        let other = dir.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("b.yaml"), pod("other")).unwrap();
        fs::rename(&sub, dir.path().join("old")).unwrap();
        fs::rename(&other, &sub).unwrap();
        until(&mut source, &["named", "other"]).await;
        fs::write(sub.join("b.yaml"), pod("again")).unwrap();
        until(&mut source, &["named", "again"]).await;
    }

    #[tokio::test]
    async fn what_inotify_does_not_report_is_found_by_the_rescan() {
        let (dir, mut source) = started().await;
        (source.watch, source.rescan) = (None, Duration::from_millis(300));
        source.next_scan = Instant::now() + source.rescan;
        fs::write(dir.path().join("two.yaml"), pod("two")).unwrap();
        until(&mut source, &["one", "two"]).await;
    }

    #[tokio::test]
    async fn what_came_by_standard_input_stays() {
        let read = manifest::read("standard input", pod("piped").as_bytes());
        let mut source = FileSource::new(&[PathBuf::from("-")], &read);
        assert_eq!(names(&source.next().await.unwrap()), ["piped"]);
        nothing_comes(&mut source).await;
    }
}
