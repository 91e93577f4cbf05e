//! A container's mounts attached to its `/` by descriptor, before an engine sees it.
//!
//! An engine that joins a path of the container to the path of its `/` follows links that the image or a volume
//! brings, as root and with the host's files around it. Here the kernel resolves every target with the container's `/`
//! as the root, and the mount is attached to the very directory that was found. The mounts that remain for the engine
//! have fixed targets, whose directories are known to be directories.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Component, Path, PathBuf};

use kernel::{
    Access, Attributes, DetachedMount, Dir, Filesystem, FilesystemKind, Flags, Kernel, Kind, LastLink, Node,
    Owner, Source, Stat, Submounts, Target, Unmount, Within,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::targets::{self, Area};
use super::{Stage, devices, dirs, links};
use crate::container_spec::{Console, ContainerSpec, ReadOnly};
use crate::error::{Error, Result};
use crate::spec::{Part, PreparedPaths, parts};

/// What engines make in `/dev` by themselves.
const MADE_BY_ENGINE: [&str; 15] = [
    "console", "core", "fd", "full", "kcore", "null", "ptmx", "pts", "random", "stderr", "stdin", "stdout",
    "tty", "urandom", "zero",
];

const DEV_SIZE: u64 = 64 << 20;
const DIR_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// The steps that remain after [`attach`].
#[derive(Debug)]
pub struct Attached {
    /// The mounts that only the engine can make, inside the container's namespaces, as OCI runtimes read them.
    pub left: Vec<Value>,
    /// A mount of the pod over `/dev`. The caller must mount it over the engine's `/dev`, before the program runs: the
    /// engine would otherwise create its nodes and links in it.
    pub dev: Option<DetachedMount>,
}

/// Attaches all mounts of a container to its root filesystem, in order, and creates its working directory.
pub fn attach(
    kernel: &dyn Kernel,
    start: &ContainerSpec,
    ready: &PreparedPaths,
    stage: Stage<'_>,
) -> Result<Attached> {
    let nodes = nodes(kernel, start, ready, stage)?;
    let ready = &PreparedPaths { devices: nodes, ..ready.clone() };
    let root = Root::open(kernel, start, &ready.rootfs)?;
    let mut left = Vec::new();
    let mut own_dev = None;
    for part in parts(start, ready) {
        match (targets::check(part)?, part.source()) {
            (Area::Dev, Some(source)) => {
                own_dev = Some(OwnDev { part, source, owner: root.owner });
            }
            // The engine's is made here.
            (Area::Dev, None) => {}
            (Area::Kernel, _) | (Area::Other, None) => left.push(part.json()),
            (Area::Other, Some(source)) => match own_dev {
                Some(dev) if part.target().starts_with("/dev") => attach_below_dev(kernel, part, dev)?,
                _ => root.attach(kernel, part, source)?,
            },
        }
    }
    root.check_paths(start.masked_paths.iter().chain(&start.read_only_paths))?;
    if own_dev.is_none() || !start.process.cwd.starts_with("/dev") {
        root.make_working_directory(&start.process.cwd)?;
    }
    root.close(kernel)?;
    if own_dev.is_some() && start.process.console == Console::Terminal {
        // The terminal is made before the pod's own /dev is there.
        left.push(json!({
            "destination": "/dev/pts", "type": "devpts", "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
        }));
    }
    let dev = own_dev.map(|dev| clone(kernel, dev.part, dev.source)).transpose()?;
    Ok(Attached { left, dev })
}

/// A `/dev` that the pod brings.
#[derive(Clone, Copy)]
struct OwnDev<'a> {
    part: Part<'a>,
    source: &'a Path,
    /// The container's root.
    owner: Owner,
}

/// A node for each device that has none yet: engines would make it by path.
fn nodes(
    kernel: &dyn Kernel,
    start: &ContainerSpec,
    ready: &PreparedPaths,
    stage: Stage<'_>,
) -> Result<Vec<crate::spec::PreparedDevice>> {
    let mut all = ready.devices.clone();
    if all.iter().all(|device| device.bind.is_some()) {
        return Ok(all);
    }
    let room = devices::room(kernel, start.rootfs.label.as_deref(), stage)?;
    for (number, device) in all.iter_mut().enumerate().filter(|(_, device)| device.bind.is_none()) {
        let point = room.join(number.to_string());
        devices::node(&point, device.number, None)?;
        device.bind = Some(point);
    }
    Ok(all)
}

/// A container's `/` while things are attached to it.
struct Root {
    dir: Dir,
    path: PathBuf,
    stat: Stat,
    /// `/dev`, and what stands for `/proc` and `/sys` until the engine has made them.
    dev: Stat,
    kernels: [Stat; 2],
    owner: Owner,
}

impl Root {
    fn open(kernel: &dyn Kernel, start: &ContainerSpec, path: &Path) -> Result<Self> {
        let dir = Dir::open(path)?;
        let owner = dirs::owner(start)?;
        let cover = |name: &str, filesystem: &Filesystem| {
            let point = dirs::make(&dir, name, owner)?;
            kernel.attach(kernel.make_filesystem(filesystem)?, Target::Node(point.as_fd()))?;
            Ok::<Stat, Error>(dir.open_below(Path::new(name), Within::NoLinks)?.stat()?)
        };
        let label = start.rootfs.label.as_deref();
        let dev = cover("dev", &memory(Access::ReadWrite, owner, label))?;
        // Whatever leads here is found out by it, and nothing can be made in it.
        let nothing = memory(Access::ReadOnly, owner, None);
        let kernels = [cover("proc", &nothing)?, cover("sys", &nothing)?];
        Ok(Self { stat: dir.stat()?, dir, path: path.to_owned(), dev, kernels, owner })
    }

    /// Takes away what stands for `/proc` and `/sys`.
    fn close(self, kernel: &dyn Kernel) -> Result<()> {
        for name in ["proc", "sys"] {
            kernel.unmount(&self.path.join(name), Unmount::Lazy)?;
        }
        Ok(())
    }

    fn attach(&self, kernel: &dyn Kernel, part: Part<'_>, source: &Path) -> Result<()> {
        let target = part.target();
        let kind = Node::open(source)?.stat()?.kind;
        let point = self.mount_point(target, kind)?;
        let found = point.stat()?;
        let is = |other: &Stat| found.mount_id == other.mount_id && found.same_file(other);
        if is(&self.stat) || is(&self.dev) {
            return Err(refused(target, "a link leads from there to the container's / or /dev"));
        }
        if self.made_by_engine(&point)? {
            return Err(refused(target, "the runtime makes that file itself"));
        }
        let mount = clone(kernel, part, source)?;
        Ok(kernel.attach(mount, Target::Node(point.as_fd()))?)
    }

    /// What is at `target`, made if it is missing, as a directory or a file.
    fn mount_point(&self, target: &Path, kind: Kind) -> Result<Node> {
        let below = target.strip_prefix("/").unwrap_or(target);
        let found = match self.dir.node(below, Within::AsRoot, LastLink::Follow) {
            Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => self.make(below, kind)?,
            found => found?,
        };
        self.not_the_kernels(found.stat()?, target)?;
        Ok(found)
    }

    fn not_the_kernels(&self, found: Stat, target: &Path) -> Result<()> {
        if self.kernels.iter().any(|own| own.mount_id == found.mount_id) {
            return Err(refused(target, "a link leads from there to /proc or /sys"));
        }
        Ok(())
    }

    /// Makes what is missing, from the last directory on the way that is there. A link that leads to nothing stands for
    /// what it would lead to.
    fn make(&self, below: &Path, kind: Kind) -> Result<Node> {
        let target = Path::new("/").join(below);
        let followed = links::followed(&self.dir, below)?;
        let below = followed.as_path();
        let (parent, name) = match kind {
            Kind::Directory => (below, None),
            _ => (below.parent().unwrap_or(Path::new("")), below.file_name()),
        };
        let (reached, missing) = self.reach(parent)?;
        self.not_the_kernels(reached.stat()?, &target)?;
        make_point(&reached, &missing, name, self.owner).map_err(|cause| cannot_make(&target, cause))
    }

    /// The last directory on the way to `below` that is there, and the rest of the way.
    fn reach(&self, below: &Path) -> Result<(Dir, PathBuf)> {
        for there in below.ancestors() {
            match self.dir.open_below(there, Within::AsRoot) {
                Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => {}
                dir => return Ok((dir?, below.strip_prefix(there).unwrap_or(below).to_owned())),
            }
        }
        Ok((self.dir.open_below(Path::new(""), Within::NoLinks)?, below.to_owned()))
    }

    /// Whether it is a file of `/dev` that engines make.
    fn made_by_engine(&self, point: &Node) -> Result<bool> {
        let link = format!("/proc/thread-self/fd/{}", point.as_fd().as_raw_fd());
        let path = fs::read_link(&link).map_err(|cause| Error::File {
            what: "look at",
            path: point.path().to_owned(),
            cause,
        })?;
        let Ok(name) = path.strip_prefix(self.path.join("dev")) else { return Ok(false) };
        Ok(MADE_BY_ENGINE.iter().any(|made| name == Path::new(made)))
    }

    /// Paths that are to be masked or made read-only, which engines do by path: no link may be on the way, and no mount
    /// whose contents others can change.
    fn check_paths<'a>(&self, paths: impl Iterator<Item = &'a String>) -> Result<()> {
        for path in paths.map(Path::new) {
            if path.starts_with("/proc") || path.starts_with("/sys") {
                no_dots(path)?;
                continue;
            }
            no_dots(path)?;
            match self.dir.node(path.strip_prefix("/").unwrap_or(path), Within::NoLinks, LastLink::Keep) {
                Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => {}
                Ok(found) if found.mount_id()? == self.stat.mount_id => {}
                Ok(_) => return Err(refused(path, "it is to be masked or read-only, and is in a volume")),
                Err(_) => return Err(refused(path, "it is to be masked or read-only, and is behind a link")),
            }
        }
        Ok(())
    }

    /// The directory that the program starts in, made if it is missing.
    fn make_working_directory(&self, cwd: &Path) -> Result<()> {
        if cwd.as_os_str().is_empty() || cwd == Path::new("/") || cwd.starts_with("/sys") {
            return Ok(());
        }
        if cwd.starts_with("/proc") {
            // Below it are links to what other processes have open.
            return if cwd == Path::new("/proc") {
                Ok(())
            } else {
                Err(Error::WorkingDirectory { path: cwd.to_owned(), why: "it is below /proc" })
            };
        }
        no_dots(cwd)?;
        let found = self.mount_point(cwd, Kind::Directory)?.stat()?;
        if found.kind != Kind::Directory {
            return Err(Error::WorkingDirectory { path: cwd.to_owned(), why: "it is not a directory" });
        }
        Ok(())
    }
}

/// Attaches something below a `/dev` that the pod brings, where the whole of it is still below the stage.
fn attach_below_dev(kernel: &dyn Kernel, part: Part<'_>, dev: OwnDev<'_>) -> Result<()> {
    let (Some(source), Ok(below)) = (part.source(), part.target().strip_prefix("/dev")) else {
        return Ok(());
    };
    let dir = Dir::open(dev.source)?;
    let kind = Node::open(source)?.stat()?.kind;
    let point = match dir.node(below, Within::NoLinks, LastLink::Keep) {
        Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => {
            let (parent, name) = match kind {
                Kind::Directory => (below, None),
                _ => (below.parent().unwrap_or(Path::new("")), below.file_name()),
            };
            make_point(&dir, parent, name, dev.owner).map_err(|cause| cannot_make(part.target(), cause))?
        }
        found => found?,
    };
    let mount = clone(kernel, part, source)?;
    Ok(kernel.attach(mount, Target::Node(point.as_fd()))?)
}

/// A mount point below a directory, by its owner: the directories of `parents`, and in the last of them a file, if it is to be
/// one.
fn make_point(
    dir: &Dir,
    parents: &Path,
    file: Option<&OsStr>,
    owner: Owner,
) -> std::result::Result<Node, kernel::Error> {
    kernel::making_files_as(owner, || {
        let parent = dirs::below(dir, parents)?;
        let Some(name) = file.map(Path::new) else {
            return parent.node(Path::new(""), Within::NoLinks, LastLink::Keep);
        };
        let path = parent.path().join(name);
        new_file(&parent, name).map_err(|errno| kernel::Error::Open { path, errno })?;
        parent.node(name, Within::NoLinks, LastLink::Keep)
    })?
}

/// The prepared mount of a part, with the attributes that an engine would get as mount options.
fn clone(kernel: &dyn Kernel, part: Part<'_>, source: &Path) -> Result<DetachedMount> {
    let mut mount = kernel.clone_mount(Source::Path(source), Submounts::Included)?;
    let (access, flags) = match part {
        Part::Bind(bind, _) => {
            let access = if bind.read_only == ReadOnly::No { Access::ReadWrite } else { Access::ReadOnly };
            (access, bind.options.iter().fold(Flags::NONE, |flags, option| flags | flag(option)))
        }
        Part::Image(..) => (Access::ReadOnly, Flags::NODEV),
        Part::Volume(..) => (Access::ReadWrite, Flags::NODEV),
        Part::Device(..) | Part::New(_) => (Access::ReadWrite, Flags::NOSUID | Flags::NOEXEC),
    };
    kernel.set_attributes(&mut mount, &Attributes { access, flags, ..Attributes::default() })?;
    Ok(mount)
}

fn flag(option: &str) -> Flags {
    match option {
        "nosuid" => Flags::NOSUID,
        "nodev" => Flags::NODEV,
        "noexec" => Flags::NOEXEC,
        _ => Flags::NONE,
    }
}

fn memory(access: Access, owner: Owner, label: Option<&str>) -> Filesystem {
    let kind = FilesystemKind::Tmpfs { size: Some(DEV_SIZE), inodes: None, mode: DIR_MODE, owner };
    Filesystem { kind, context: label.map(str::to_owned), access, flags: Flags::NOSUID }
}

fn new_file(dir: &Dir, name: &Path) -> std::result::Result<(), Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(FILE_MODE)).map(drop)
}

fn no_dots(path: &Path) -> Result<()> {
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if path.is_absolute() && path.components().all(plain) {
        return Ok(());
    }
    Err(refused(path, "it is not an absolute path without `..`"))
}

fn refused(target: &Path, why: &'static str) -> Error {
    Error::Target { target: target.to_owned(), why }
}

fn cannot_make(target: &Path, cause: kernel::Error) -> Error {
    Error::MountPoint { target: target.to_owned(), cause: Box::new(cause) }
}
