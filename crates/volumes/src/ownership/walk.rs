use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kernel::Kind;
use rustix::fs::{
    AtFlags, FileType, Mode as RawMode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, makedev, openat2,
    statx,
};
use rustix::io::Errno;

use crate::payload::Mode;

/// No step of a path may lead up, through a link, or into another mount.
const STRAIGHT: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Held, not opened: no device is touched, no pipe waited for.
pub(crate) const HELD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The kernel takes 4096 bytes of path at once; a pod can make deeper trees than that.
const AT_ONCE: usize = 2048;
const TRIES: usize = 256;

/// What the kernel knows of a held file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u32,
    pub(crate) size: u64,
    /// Immutable or append-only: not even root can give it away.
    pub(crate) fixed: bool,
    /// When it was made, in nanoseconds, on filesystems that know: tells a file from a later one with
    /// the same number.
    pub(crate) born: Option<i64>,
}

impl Facts {
    pub(crate) fn of(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let found = statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT, wanted)?;
        let knows_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let birth = || {
            let whole = found.stx_btime.tv_sec.checked_mul(1_000_000_000)?;
            whole.checked_add(found.stx_btime.tv_nsec.into())
        };
        Ok(Self {
            dev: makedev(found.stx_dev_major, found.stx_dev_minor),
            ino: found.stx_ino,
            kind: kind(FileType::from_raw_mode(found.stx_mode.into())),
            mode: Mode::cut(found.stx_mode.into()),
            uid: found.stx_uid,
            gid: found.stx_gid,
            links: found.stx_nlink,
            size: found.stx_size,
            fixed: found.stx_attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND),
            born: if knows_birth { birth() } else { None },
        })
    }
}

fn kind(raw: FileType) -> Kind {
    match raw {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        _ => Kind::Other,
    }
}

/// A file of the tree, held.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) fd: OwnedFd,
    /// Below the tree's root; empty for the root.
    pub(crate) path: PathBuf,
    pub(crate) facts: Facts,
}

/// What a walk comes to.
#[derive(Debug)]
pub(crate) enum Step {
    /// A file, directory or link. A directory comes after all that is in it.
    File(Held),
    /// A mount, which is not entered.
    Mount(PathBuf),
    /// Something that could not be looked at.
    Failed(PathBuf, Errno),
}

/// What is still to be done, with names only: a path for each level of a deep tree would take more memory
/// than the tree.
enum Pending {
    Enter(OsString),
    Leave,
}

/// Goes through the tree below `root`, and `root` itself last, until `visit` fails. What vanishes
/// meanwhile is left out. No descriptor is held for a directory whose turn has not come, however deep
/// the tree.
pub(crate) fn walk<E>(root: BorrowedFd<'_>, mut visit: impl FnMut(Step) -> Result<(), E>) -> Result<(), E> {
    let mut pending = vec![Pending::Enter(OsString::new())];
    let mut path = PathBuf::new();
    while let Some(next) = pending.pop() {
        match next {
            Pending::Leave => {
                one(root, path.clone(), &mut visit)?;
                path.pop();
            }
            Pending::Enter(name) => {
                path.push(name);
                let mut below = vec![];
                enter(root, &path, &mut below, &mut visit)?;
                pending.push(Pending::Leave);
                pending.extend(below.into_iter().map(Pending::Enter));
            }
        }
    }
    Ok(())
}

fn one<E>(
    root: BorrowedFd<'_>,
    path: PathBuf,
    visit: &mut impl FnMut(Step) -> Result<(), E>,
) -> Result<(), E> {
    match hold(root, &path) {
        Ok(held) => visit(Step::File(held)),
        Err(errno) => missed(path, errno, visit),
    }
}

fn missed<E>(path: PathBuf, errno: Errno, visit: &mut impl FnMut(Step) -> Result<(), E>) -> Result<(), E> {
    match errno {
        Errno::NOENT => Ok(()),
        Errno::XDEV => visit(Step::Mount(path)),
        errno => visit(Step::Failed(path, errno)),
    }
}

/// Visits what is in a directory, but for the directories in it: their names go to `below`.
fn enter<E>(
    root: BorrowedFd<'_>,
    path: &Path,
    below: &mut Vec<OsString>,
    visit: &mut impl FnMut(Step) -> Result<(), E>,
) -> Result<(), E> {
    let (dir, names) = match open_below(root, path, LISTED).and_then(|dir| Ok((names(dir.as_fd())?, dir))) {
        Ok((names, dir)) => (dir, names),
        // Something else by now, or gone.
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        Err(errno) => return missed(path.to_owned(), errno, visit),
    };
    for name in names {
        match hold_in(dir.as_fd(), Path::new(&name)) {
            Ok((_, facts)) if facts.kind == Kind::Directory => below.push(name),
            Ok((fd, facts)) => visit(Step::File(Held { fd, path: path.join(&name), facts }))?,
            Err(errno) => missed(path.join(&name), errno, visit)?,
        }
    }
    Ok(())
}

fn names(dir: BorrowedFd<'_>) -> Result<Vec<OsString>, Errno> {
    let mut names = vec![];
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Holds what is at `path` below `root`, whatever it is.
pub(crate) fn hold(root: BorrowedFd<'_>, path: &Path) -> Result<Held, Errno> {
    let fd = open_below(root, path, HELD)?;
    let facts = Facts::of(fd.as_fd())?;
    Ok(Held { fd, path: path.to_owned(), facts })
}

pub(crate) fn hold_in(dir: BorrowedFd<'_>, name: &Path) -> Result<(OwnedFd, Facts), Errno> {
    let fd = straight(dir, name, HELD)?;
    let facts = Facts::of(fd.as_fd())?;
    Ok((fd, facts))
}

/// Opens what is at `path`, however long the path is.
pub(crate) fn open_below(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut reached: Option<OwnedFd> = None;
    let mut stretch = PathBuf::new();
    for part in path.components() {
        if stretch.as_os_str().len() > AT_ONCE {
            let from = reached.as_ref().map_or(root, AsFd::as_fd);
            reached = Some(straight(from, &stretch, HELD | OFlags::DIRECTORY)?);
            stretch = PathBuf::new();
        }
        stretch.push(part);
    }
    straight(reached.as_ref().map_or(root, AsFd::as_fd), &stretch, flags)
}

fn straight(from: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let mut answer = Err(Errno::AGAIN);
    for _ in 0..TRIES {
        answer = openat2(from, path, flags, RawMode::empty(), STRAIGHT);
        if !matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    answer
}
