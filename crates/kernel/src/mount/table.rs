use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{Error, Result};

const OWN: &str = "/proc/thread-self/mountinfo";

/// What is mounted in a mount namespace, in the kernel's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountTable(Vec<MountEntry>);

/// One line of mountinfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// The mount ID, as in statx.
    pub id: u64,
    /// The ID of the parent mount.
    pub parent: u64,
    /// The device number of the filesystem, major and minor.
    pub device: (u32, u32),
    /// The part of the filesystem that is mounted.
    pub root: PathBuf,
    /// The mount point, as seen from the reader's root.
    pub point: PathBuf,
    /// Options of this mount.
    pub options: Vec<String>,
    /// Its propagation: `shared:3`, `master:4`, …; nothing if private.
    pub propagation: Vec<String>,
    /// The filesystem's type.
    pub filesystem: String,
    /// Its source.
    pub source: String,
    /// Options of the filesystem. A SELinux context keeps its quotes and the commas in them.
    pub super_options: Vec<String>,
}

impl MountEntry {
    /// Whether the mount is idmapped.
    #[must_use]
    pub fn idmapped(&self) -> bool {
        self.options.iter().any(|option| option == "idmapped")
    }

    /// Whether this mount, or the filesystem itself, cannot be written to.
    #[must_use]
    pub fn read_only(&self) -> bool {
        [&self.options, &self.super_options].into_iter().flatten().any(|option| option == "ro")
    }

    /// The SELinux label that every file of this mount has, without its quotes.
    #[must_use]
    pub fn context(&self) -> Option<&str> {
        let value = self.super_options.iter().find_map(|option| option.strip_prefix("context="))?;
        Some(value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value))
    }
}

impl MountTable {
    /// That of the calling thread.
    pub fn read() -> Result<Self> {
        Self::from_file(Path::new(OWN))
    }

    /// That of a process.
    pub fn of(pid: u32) -> Result<Self> {
        Self::from_file(Path::new(&format!("/proc/{pid}/mountinfo")))
    }

    /// Of that of the calling thread, only the mount with this number, as [`crate::Stat`] has it.
    pub fn read_one(id: u64) -> Result<Option<MountEntry>> {
        let text = contents(Path::new(OWN))?;
        one(&text, id)
    }

    /// That of the task whose directory in proc this is.
    pub(crate) fn of_task(task: BorrowedFd<'_>) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut text = Vec::with_capacity(32 * 1024);
        let file = rustix::fs::openat(task, "mountinfo", flags, Mode::empty()).map(fs::File::from);
        let read = file.map_err(Into::into).and_then(|mut file| file.read_to_end(&mut text));
        read.map_err(|error| unreadable(Path::new("mountinfo"), &error))?;
        Self::parse_bytes(&text)
    }

    fn from_file(path: &Path) -> Result<Self> {
        Self::parse_bytes(&contents(path)?)
    }

    /// From the text of a mountinfo file.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_bytes(text.as_bytes())
    }

    fn parse_bytes(text: &[u8]) -> Result<Self> {
        lines(text).map(parsed).collect::<Result<_>>().map(Self)
    }

    /// All of them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &MountEntry> {
        self.0.iter()
    }

    /// The mounts at `path` or anywhere below it.
    pub fn under<'a>(&'a self, path: &'a Path) -> impl DoubleEndedIterator<Item = &'a MountEntry> {
        self.iter().filter(move |mount| mount.point.starts_with(path))
    }

    /// The mounts below `path`, without one at the path itself.
    pub fn below<'a>(&'a self, path: &'a Path) -> impl DoubleEndedIterator<Item = &'a MountEntry> {
        self.under(path).filter(move |mount| mount.point != path)
    }

    /// The mount that is seen at `path`, if it is a mount point: of those stacked there the one that no other
    /// is mounted on. (Their order does not tell: since Linux 6.8 it is that of their making, and a mount that
    /// was made first may have been attached last.)
    #[must_use]
    pub fn at(&self, path: &Path) -> Option<&MountEntry> {
        let here: Vec<&MountEntry> = self.iter().filter(|mount| mount.point == path).collect();
        let covered =
            |mount: &MountEntry| here.iter().any(|other| other.parent == mount.id && other.id != mount.id);
        here.iter().rev().copied().find(|mount| !covered(mount))
    }

    /// The mount with this number, as [`crate::Stat`] has it.
    #[must_use]
    pub fn by_id(&self, id: u64) -> Option<&MountEntry> {
        self.iter().find(|mount| mount.id == id)
    }
}

/// The file has no length before it is read; asked for little at a time, the kernel begins anew each time.
fn contents(path: &Path) -> Result<Vec<u8>> {
    let mut text = Vec::with_capacity(32 * 1024);
    let read = fs::File::open(path).and_then(|mut file| file.read_to_end(&mut text));
    read.map(|_| text).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::Open { path: path.to_owned(), errno: Errno::from_io_error(error).unwrap_or(Errno::IO) }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn one(text: &[u8], id: u64) -> Result<Option<MountEntry>> {
    let first = |line: &[u8]| line.split(|byte| *byte == b' ').next().and_then(number);
    lines(text).find(|line| first(line) == Some(id)).map(parsed).transpose()
}

fn parsed(line: &[u8]) -> Result<MountEntry> {
    entry(line).ok_or_else(|| Error::MountInfo { line: lossy(line) })
}

fn entry(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut next = || fields.next();
    let (id, parent) = (number(next()?)?, number(next()?)?);
    let device = text(next()?);
    let (major, minor) = device.split_once(':')?;
    let (root, point) = (path(next()?), path(next()?));
    let options = list(next()?);
    let propagation =
        std::iter::from_fn(&mut next).take_while(|field| *field != b"-").map(text).collect::<Vec<_>>();
    let (filesystem, source) = (text(next()?), text(next()?));
    Some(MountEntry {
        id,
        parent,
        device: (major.parse().ok()?, minor.parse().ok()?),
        root,
        point,
        options,
        propagation,
        filesystem,
        source,
        super_options: list(next()?),
    })
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn path(field: &[u8]) -> PathBuf {
    OsString::from_vec(unescape(field)).into()
}

fn text(field: &[u8]) -> String {
    lossy(&unescape(field))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Space, tab, newline, backslash and the like are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'\\').then(|| after.split_at_checked(3)).flatten();
        match escaped.and_then(|(digits, tail)| Some((octal(digits)?, tail))) {
            Some((byte, tail)) => {
                bytes.push(byte);
                rest = tail;
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

fn octal(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok()?;
    let only_digits = text.bytes().all(|digit| (b'0'..b'8').contains(&digit));
    only_digits.then(|| u8::from_str_radix(text, 8).ok()).flatten()
}

/// Options between commas, but for commas in quotes. A comma that belongs to a value is escaped.
fn list(field: &[u8]) -> Vec<String> {
    let mut quoted = false;
    field
        .split(|letter| {
            quoted ^= *letter == b'"';
            *letter == b',' && !quoted
        })
        .map(text)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/root rw
30 22 0:25 / /run/a\\040b\\134c rw,nosuid,idmapped shared:3 master:1 - tmpfs a\\040source rw,size=1k
31 22 7:0 /part /mnt ro,relatime - ext4 /dev/loop0 rw,context=\"system_u:object_r:t:s0:c1,c2\",x
32 31 0:26 / /mnt/in rw - tmpfs none rw,seclabel
33 22 0:27 / /mnt rw - ramfs none rw
";

    #[test]
    fn every_field_is_read_and_unescaped() {
        let table = MountTable::parse(TEXT).unwrap();
        let run = table.by_id(30).unwrap();
        assert_eq!(run.point, Path::new("/run/a b\\c"));
        assert_eq!((run.parent, run.device, run.source.as_str()), (22, (0, 25), "a source"));
        assert_eq!(run.propagation, ["shared:3", "master:1"]);
        assert_eq!((run.idmapped(), run.read_only(), run.context()), (true, false, None));
        let part = table.by_id(31).unwrap();
        assert_eq!((part.root.as_path(), part.read_only()), (Path::new("/part"), true));
        assert_eq!(part.context(), Some("system_u:object_r:t:s0:c1,c2"));
        assert_eq!(part.super_options.len(), 3);
    }

    #[test]
    fn one_of_them_is_found_by_its_number_and_the_others_are_not_read() {
        let text = format!("no mount\n{TEXT}");
        let whole = MountTable::parse(TEXT).unwrap();
        for id in [22, 30, 33] {
            assert_eq!(one(text.as_bytes(), id).unwrap().as_ref(), whole.by_id(id));
        }
        assert_eq!(one(text.as_bytes(), 3).unwrap(), None);
        assert!(one(b"34 22 nonsense\n", 34).is_err());
    }

    #[test]
    fn a_comma_that_belongs_to_an_option_does_not_end_it() {
        let line =
            "9 1 0:9 / /o rw - overlay overlay rw,lowerdir=/a\\054b:/c\\134:d,upperdir=/u,workdir=/w\n";
        let table = MountTable::parse(line).unwrap();
        let options = &table.by_id(9).unwrap().super_options;
        assert_eq!(options[1..], ["lowerdir=/a,b:/c\\:d", "upperdir=/u", "workdir=/w"]);
    }

    #[test]
    fn paths_are_compared_by_whole_names_and_the_topmost_mount_counts() {
        let table = MountTable::parse(TEXT).unwrap();
        assert_eq!(table.at(Path::new("/mnt")).unwrap().id, 33);
        assert!(table.at(Path::new("/mn")).is_none());
        let ids = |found: Vec<&MountEntry>| found.iter().map(|mount| mount.id).collect::<Vec<_>>();
        assert_eq!(ids(table.under(Path::new("/mnt")).collect()), [31, 32, 33]);
        assert_eq!(ids(table.below(Path::new("/mnt")).collect()), [32]);
        assert_eq!(table.under(Path::new("/mn")).count(), 0);
    }

    #[test]
    fn a_line_that_is_none_is_shown() {
        let error = MountTable::parse("22 1 nonsense").unwrap_err();
        assert_eq!(error.to_string(), "cannot read this line of mountinfo: \"22 1 nonsense\"");
    }

    #[test]
    fn of_stacked_mounts_the_one_on_top_is_seen_whichever_was_made_first() {
        let line =
            |id: u32, parent: u32, name: &str| format!("{id} {parent} 0:{id} / {name} rw - tmpfs tmpfs rw\n");
        let made_first = line(30, 1, "/") + &line(31, 40, "/over") + &line(40, 30, "/over");
        let made_last = line(30, 1, "/") + &line(31, 30, "/over") + &line(40, 31, "/over");
        for (text, top) in [(made_first, 31), (made_last, 40)] {
            let table = MountTable::parse(&text).unwrap();
            assert_eq!(table.at(Path::new("/over")).unwrap().id, top);
        }
    }

    #[test]
    fn our_own_table_has_a_root() {
        assert!(MountTable::read().unwrap().at(Path::new("/")).is_some());
    }
}
