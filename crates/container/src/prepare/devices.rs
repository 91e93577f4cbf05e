use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use kernel::{
    Access, Dir, Filesystem, FilesystemKind, Flags, Kernel, Kind, LastLink, Node, Owner, Stat, Target, Within,
};
use rustix::fs::{CWD, FileType, Mode, major, makedev, minor, mknodat};

use super::{Stage, make_dir};
use crate::container_spec::{ContainerSpec, Device, NamespaceSpec, NodeOwner};
use crate::error::{Error, Result};
use crate::spec::{DeviceNumber, PreparedDevice};
use ids::IdMappings;

/// What of a directory of devices a container has of its own.
const NOT_HANDED_ON: [&str; 7] = ["pts", "ptmx", "console", "shm", "fd", "mqueue", ".udev"];

/// Those that every runtime gives to every container by itself, and stumbles over when they are there.
const USUAL: [(&str, (u32, u32)); 6] = [
    ("/dev/null", (1, 3)),
    ("/dev/zero", (1, 5)),
    ("/dev/full", (1, 7)),
    ("/dev/random", (1, 8)),
    ("/dev/urandom", (1, 9)),
    ("/dev/tty", (5, 0)),
];

/// How far below a directory devices are looked for.
const DEEPEST: usize = 16;

/// The devices of a container. In a user namespace, where none can be made, each is made below the stage,
/// for its users where it was given to them.
pub(super) fn make(
    kernel: &dyn Kernel,
    start: &ContainerSpec,
    stage: Stage<'_>,
) -> Result<Vec<PreparedDevice>> {
    let mut found = Vec::new();
    for device in &start.devices {
        let mut these = Vec::new();
        look(device, &mut these)?;
        if these.is_empty() {
            return Err(Error::NoDevice { device: device.source.clone() });
        }
        these.retain(|device| !usual(device));
        found.extend(these.into_iter().map(|ready| (device.owner, ready)));
    }
    if let (Some(ids), false) = (&start.ids, start.namespaces.user == NamespaceSpec::Host || found.is_empty())
    {
        let dir = room(kernel, start.rootfs.label.as_deref(), stage)?;
        for (number, (owner, device)) in found.iter_mut().enumerate() {
            let point = dir.join(number.to_string());
            node(&point, device.number, Some(ids).filter(|_| *owner == NodeOwner::Container))?;
            device.bind = Some(point);
        }
    }
    Ok(found.into_iter().map(|(_, device)| device).collect())
}

/// A directory below the stage for nodes.
pub(super) fn room(kernel: &dyn Kernel, label: Option<&str>, stage: Stage<'_>) -> Result<PathBuf> {
    let dir = stage.dir.join("devices");
    make_dir(&dir)?;
    kernel.attach(kernel.make_filesystem(&nodes(label))?, Target::Path(&dir))?;
    Ok(dir)
}

/// Unlike all else below the stage, this lets devices be opened.
fn nodes(label: Option<&str>) -> Filesystem {
    let memory = FilesystemKind::Tmpfs { size: Some(1 << 20), inodes: None, mode: 0o755, owner: Owner::ROOT };
    let flags = Flags::NOSUID | Flags::NOEXEC;
    Filesystem { kind: memory, context: label.map(str::to_owned), access: Access::ReadWrite, flags }
}

/// A device node with the owner of the host's node; with maps, with the same IDs inside as that has outside, and with
/// root where those have no host ID.
pub(super) fn node(point: &Path, number: DeviceNumber, ids: Option<&IdMappings>) -> Result<()> {
    let failed = |cause| Error::File { what: "make", path: point.to_owned(), cause };
    let kind = if number.kind == 'b' { FileType::BlockDevice } else { FileType::CharacterDevice };
    let device = makedev(number.major, number.minor);
    mknodat(CWD, point, kind, Mode::empty(), device).map_err(|errno| failed(errno.into()))?;
    let (uid, gid) = match ids {
        Some(ids) => (
            ids.host_user(number.uid).or_else(|| ids.host_user(0)),
            ids.host_group(number.gid).or_else(|| ids.host_group(0)),
        ),
        None => (Some(number.uid), Some(number.gid)),
    };
    chown(point, uid, gid).map_err(failed)?;
    fs::set_permissions(point, Permissions::from_mode(number.mode)).map_err(failed)
}

fn look(device: &Device, found: &mut Vec<PreparedDevice>) -> Result<()> {
    let node = Node::open(&device.source)?;
    let stat = node.stat()?;
    if stat.kind == Kind::Directory {
        return below(device, &node.open_dir()?, Path::new(""), found);
    }
    found.extend(number(&stat).map(|number| ready(device, Path::new(""), number)));
    Ok(())
}

/// All devices below a directory, each at the same place below the target. What is no device is left out.
fn below(device: &Device, dir: &Dir, rel: &Path, found: &mut Vec<PreparedDevice>) -> Result<()> {
    if rel.components().count() > DEEPEST {
        return Err(Error::NoDevice { device: device.source.join(rel) });
    }
    let mut entries = dir.entries()?;
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    for entry in entries.into_iter().filter(|entry| handed_on(&entry.name)) {
        let name = Path::new(&entry.name);
        match entry.kind {
            Kind::Directory => {
                below(device, &dir.open_below(name, Within::NoLinks)?, &rel.join(name), found)?
            }
            Kind::CharDevice | Kind::BlockDevice => {
                let stat = dir.node(name, Within::NoLinks, LastLink::Keep)?.stat()?;
                found.extend(number(&stat).map(|number| ready(device, &rel.join(name), number)));
            }
            _ => {}
        }
    }
    Ok(())
}

fn usual(device: &PreparedDevice) -> bool {
    let number = (device.number.major, device.number.minor);
    USUAL.iter().any(|(path, usual)| device.target == Path::new(path) && *usual == number)
}

fn handed_on(name: &OsStr) -> bool {
    !NOT_HANDED_ON.iter().any(|own| name == *own)
}

fn ready(device: &Device, rel: &Path, number: DeviceNumber) -> PreparedDevice {
    let target = if rel.as_os_str().is_empty() { device.target.clone() } else { device.target.join(rel) };
    PreparedDevice { target, access: device.access.clone(), number, bind: None }
}

fn number(stat: &Stat) -> Option<DeviceNumber> {
    let kind = match stat.kind {
        Kind::CharDevice => 'c',
        Kind::BlockDevice => 'b',
        _ => return None,
    };
    let (major, minor) = (major(stat.rdev), minor(stat.rdev));
    Some(DeviceNumber { kind, major, minor, mode: stat.mode, uid: stat.uid, gid: stat.gid })
}
