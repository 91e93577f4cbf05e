//! Manifests as a source of pods: files, and directories of files, watched.
//!
//! A file is read once it is complete: immediately if it is renamed into place, and when its writer has
//! closed it if it is written in place. Until then it keeps its previous objects, and no other file waits for
//! it. A file that cannot be read or parsed, or that is empty, keeps its previous objects, too. When a file
//! disappears from a directory, its objects are removed. When a file that was named itself disappears, its
//! objects are kept, because its loss may be an accident.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use manifest::{Object, Reading};
use rustix::fs::inotify::WatchFlags;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::ports::{BoxFuture, PodSource};
use crate::sources::manifests::{Names, files, is_watched};
use crate::sources::open::Stamp;
use crate::sources::tracked::{DueFile, OnDisk, PATIENCE, ReadFile, SETTLED, Tracked};
use crate::sources::watch::{Seen, SeenKind, Watch};

pub use crate::sources::tracked::FileProblem;

/// Period of a scan of all files without an event of inotify, for changes that inotify does not report.
const RESCAN: Duration = Duration::from_secs(20);
/// Period of a scan while a file is being written.
const RECHECK: Duration = Duration::from_millis(500);
/// Events of so long a time are handled at once.
const BATCH: Duration = Duration::from_millis(20);

/// The objects of all files that can be read, and the problems with the others.
#[derive(Debug)]
pub struct FileSet {
    /// The objects. A file with a problem keeps its previous ones.
    pub objects: Vec<Object>,
    /// New problems with files.
    pub problems: Vec<FileProblem>,
}

/// A source of pods from files and directories of files.
pub struct FileSource {
    names: Vec<PathBuf>,
    /// Which files of a directory are read.
    in_dirs: Names,
    rescan: Duration,
    watch: Option<Watch>,
    /// The watched directories, by watch descriptor.
    dirs: HashMap<i32, WatchedDir>,
    tracked: BTreeMap<PathBuf, Tracked>,
    /// The objects of files that cannot be read again: standard input and pipes.
    fixed: Vec<Object>,
    /// The files that are being read, in a thread of their own.
    reading: Option<JoinHandle<Vec<ReadFile>>>,
    is_delivered: bool,
    /// Whether there is a reported change that has not been looked at.
    is_changed: bool,
    /// Files that are being written, as inotify reports it, and when they were last written.
    writing: HashMap<PathBuf, Instant>,
    next_scan: Instant,
}

/// A watched directory.
#[derive(Debug, Default)]
struct WatchedDir {
    /// Its paths.
    paths: BTreeSet<PathBuf>,
    /// The entries that count; none if all do.
    entries: Option<BTreeSet<OsString>>,
}

impl FileSource {
    /// A source of these files and directories; `first` has the objects that were already read from them.
    /// Objects of standard input (`-`) and of pipes are kept. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(names: &[PathBuf], first: &Reading) -> Self {
        let names: Vec<PathBuf> = names.iter().filter(|name| is_watched(name)).cloned().collect();
        let mut tracked: BTreeMap<PathBuf, Tracked> = BTreeMap::new();
        let mut fixed = Vec::new();
        for object in &first.objects {
            let path = Path::new(&*object.file);
            if names.iter().any(|name| name == path || path.parent() == Some(name)) {
                let unread = || Tracked::new(OnDisk::Gone, Vec::new());
                tracked.entry(path.to_owned()).or_insert_with(unread).objects.push(object.clone());
            } else {
                fixed.push(object.clone());
            }
        }
        Self {
            names,
            in_dirs: Names::ByEnding,
            rescan: RESCAN,
            // Without inotify the periodic scan finds changes.
            watch: Watch::new().ok(),
            dirs: HashMap::new(),
            tracked,
            fixed,
            reading: None,
            is_delivered: false,
            is_changed: true,
            writing: HashMap::new(),
            next_scan: Instant::now(),
        }
    }

    /// A source of the kubelet's directory of static pods: all of its files that are not hidden, scanned at least so
    /// often. Must be called within a tokio runtime.
    #[must_use]
    pub fn static_pods(dir: &Path, rescan: Duration) -> Self {
        Self { in_dirs: Names::All, rescan, ..Self::new(&[dir.to_owned()], &Reading::default()) }
    }

    /// Waits until the files may have changed.
    async fn wait(&mut self) {
        while !self.is_changed {
            let Some(watch) = &self.watch else { return tokio::time::sleep_until(self.next_scan).await };
            tokio::select! {
                seen = watch.changed() => match seen {
                    Ok(seen) => self.note(seen),
                    Err(_) => self.watch = None,
                },
                () = tokio::time::sleep_until(self.next_scan) => return,
            }
            tokio::time::sleep(BATCH).await;
        }
    }

    fn note(&mut self, seen: Vec<Seen>) {
        for Seen { watch, name, kind } in seen {
            let Some(name) = name else {
                self.is_changed = true;
                continue;
            };
            let Some(dir) = self.dirs.get(&watch) else { continue };
            if dir.entries.as_ref().is_some_and(|entries| !entries.contains(&name)) {
                continue;
            }
            self.is_changed = true;
            for path in dir.paths.iter().map(|dir| dir.join(&name)) {
                let _ = match kind {
                    SeenKind::Writing => self.writing.insert(path, Instant::now()),
                    SeenKind::Closed => self.writing.remove(&path),
                    SeenKind::Other => None,
                };
            }
        }
    }

    /// Watches the named directories, those of named files, and the targets of links. It is called again
    /// after each change, because a replaced directory is a new inode.
    fn add_watches(&mut self) {
        let Some(watch) = &self.watch else { return };
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::ONLYDIR;
        let mut wanted: Vec<(PathBuf, Option<OsString>)> = Vec::new();
        for name in &self.names {
            wanted.extend(name.is_dir().then(|| (name.clone(), None)));
            let at = |path: &Path| Some((path.parent()?.to_owned(), path.file_name().map(OsStr::to_owned)?));
            let leading = [Some(name.clone()), name.canonicalize().ok(), first_step(name)];
            let entries = leading.iter().flatten().filter_map(|path| at(path));
            wanted.extend(entries.map(|(dir, entry)| (dir, Some(entry))));
        }
        self.dirs.clear();
        for (dir, entry) in wanted {
            let shown = if dir == Path::new("") { Path::new(".") } else { &dir };
            // The periodic scan covers a directory that cannot be watched.
            let Ok(id) = watch.add(shown, flags) else { continue };
            let none = || WatchedDir { entries: Some(BTreeSet::new()), ..WatchedDir::default() };
            let watched = self.dirs.entry(id).or_insert_with(none);
            watched.paths.insert(dir);
            match (entry, &mut watched.entries) {
                (Some(entry), Some(entries)) => entries.extend([entry]),
                (_, entries) => *entries = None,
            }
        }
    }

    /// Notes what is on disk.
    fn scan(&mut self) {
        self.is_changed = false;
        self.add_watches();
        self.writing.retain(|_, last| last.elapsed() < PATIENCE);
        let mut found = BTreeMap::new();
        let unreadable = |error: std::io::Error| OnDisk::Unreadable(error.to_string());
        for name in &self.names {
            match files(name, self.in_dirs) {
                Ok(listed) => {
                    found.insert(name.clone(), OnDisk::Directory);
                    for file in listed {
                        let on_disk = Stamp::at(&file).map_or_else(unreadable, OnDisk::File);
                        found.insert(file, on_disk);
                    }
                }
                Err(error) => drop(found.insert(name.clone(), unreadable(error))),
            }
        }
        for path in self.tracked.keys() {
            // What was in a directory that cannot be read stays as it was.
            let dir = path.parent().and_then(|dir| found.get(dir));
            if !found.contains_key(path) && !matches!(dir, Some(OnDisk::Unreadable(_))) {
                found.insert(path.clone(), OnDisk::Gone);
            }
        }
        for (path, on_disk) in found {
            match self.tracked.get_mut(&path) {
                Some(tracked) => tracked.note(on_disk),
                None => drop(self.tracked.insert(path, Tracked::new(on_disk, Vec::new()))),
            }
        }
    }

    /// The files to read.
    fn due(&self) -> Vec<DueFile> {
        let due = self.tracked.iter().filter(|(_, tracked)| tracked.is_due());
        due.filter_map(|(path, tracked)| {
            let OnDisk::File(stamp) = tracked.on_disk else { return None };
            let target = path.canonicalize().unwrap_or_default();
            let is_written = self.writing.contains_key(path) || self.writing.contains_key(&target);
            Some(DueFile { path: path.clone(), stamp, is_written })
        })
        .collect()
    }

    /// Takes over what was read, and what needs no reading. Returns the set if there is anything new.
    fn accept(&mut self, read: Vec<ReadFile>) -> Option<FileSet> {
        let (mut problems, mut is_new) = (Vec::new(), false);
        let tried: BTreeSet<PathBuf> = read.iter().map(|file| file.path.clone()).collect();
        for ReadFile { path, stamp, outcome } in read {
            let tracked = self.tracked.get_mut(&path).filter(|one| one.on_disk == OnDisk::File(stamp));
            let (Some(tracked), Some(outcome)) = (tracked, outcome) else { continue };
            tracked.accepted();
            match outcome {
                Ok(objects) => (tracked.objects, is_new) = (objects, true),
                Err(problem) => problems.push(problem),
            }
        }
        for (path, tracked) in &mut self.tracked {
            if tracked.is_late() {
                problems.push(FileProblem::Written { path: path.clone() });
            }
            if !tracked.is_due() {
                continue;
            }
            match &tracked.on_disk {
                OnDisk::File(_) => continue,
                OnDisk::Unreadable(cause) => {
                    problems.push(FileProblem::Unreadable { path: path.clone(), cause: cause.clone() });
                }
                OnDisk::Directory | OnDisk::Gone => {
                    is_new |= !tracked.objects.is_empty();
                    tracked.objects.clear();
                }
            }
            tracked.accepted();
        }
        self.tracked.retain(|_, tracked| tracked.read != Some(OnDisk::Gone) || !tracked.is_read());
        self.next_scan = self.wake_at();
        // A file that is being written is not waited for. One that has become due since the scan was never tried: a set without
        // its pods would end them.
        let is_known =
            |(path, one): (&PathBuf, &Tracked)| one.is_read() || (one.is_due() && tried.contains(path));
        let is_first = !self.is_delivered && self.tracked.iter().all(is_known);
        if !is_new && problems.is_empty() && !is_first {
            return None;
        }
        self.is_delivered = true;
        let read = self.tracked.values().flat_map(|tracked| &tracked.objects);
        let objects = self.fixed.iter().chain(read).cloned().collect();
        Some(FileSet { objects, problems })
    }

    /// When to scan again, without an event.
    fn wake_at(&self) -> Instant {
        let now = Instant::now();
        let unread = self.tracked.values().filter(|tracked| !tracked.is_read());
        let times = unread.map(|one| if one.is_due() { now + RECHECK } else { one.since + SETTLED });
        times.chain([now + self.rescan]).min().unwrap_or(now)
    }
}

impl PodSource for FileSource {
    type Set = FileSet;

    /// Cancel safe: the next call resumes where a dropped one stopped.
    fn next(&mut self) -> BoxFuture<'_, Option<FileSet>> {
        Box::pin(async move {
            if self.names.is_empty() && self.is_delivered {
                return std::future::pending().await;
            }
            loop {
                if self.reading.is_none() {
                    self.wait().await;
                    self.scan();
                    let due = self.due();
                    let read = move || due.into_iter().map(DueFile::read).collect();
                    self.reading = Some(tokio::task::spawn_blocking(read));
                }
                if let Some(reading) = &mut self.reading {
                    let read = reading.await;
                    self.reading = None;
                    if let Some(set) = self.accept(read.unwrap_or_default()) {
                        return Some(set);
                    }
                }
            }
        })
    }
}

/// The entry beside a link that the link's target leads through: in a ConfigMap volume, a file is a link to
/// `..data/file`, and an update replaces the link `..data`.
fn first_step(link: &Path) -> Option<PathBuf> {
    let target = link.read_link().ok()?;
    match target.components().next()? {
        Component::Normal(step) => Some(link.with_file_name(step)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
