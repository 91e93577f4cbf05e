//! Overlays and idmapped clones of mounts that have a context.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ids::IdMapping;
use kernel::probe::{self, Answer};
use kernel::{Access, DetachedMount, Submounts, UsernsFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsOpenFlags, MoveMountFlags, OpenTreeFlags, fsconfig_set_fd, fsopen, move_mount, open_tree,
};

use crate::lab::{
    Disk, OURS, Outcome, Step, THEIRS, configure, configure_at, context, dir, label, mounted, older_than,
    options, set_label, want, write,
};

/// Where container ID 0 is on the host.
const FIRST: u64 = 65_536;

/// A lower layer with a file, an upper and a work directory on a tmpfs.
struct Layers {
    lower: String,
    upper: String,
    work: String,
}

impl Layers {
    fn new() -> Result<Self, String> {
        let root = mounted("tmpfs", "")?;
        let [lower, upper, work] = ["lower", "upper", "work"].map(|name| format!("{root}/{name}"));
        for path in [&lower, &upper, &work] {
            std::fs::create_dir(path).map_err(|error| format!("{path}: {error}"))?;
        }
        write(&format!("{lower}/f"))?;
        Ok(Self { lower, upper, work })
    }

    fn over(&self, lower: &str, context: &str) -> String {
        format!("lowerdir={lower},upperdir={},workdir={},{context}", self.upper, self.work)
    }
}

/// An overlay is a superblock of its own: images shared by pods do not conflict. What is written through
/// it has the context in the upper layer too, where the upper layer's filesystem keeps labels.
pub(crate) fn overlay() -> Outcome {
    let (first, second) = (Layers::new()?, Layers::new()?);
    let before = label(&format!("{}/f", first.lower))?;
    for (layers, wanted) in [(&first, OURS), (&second, THEIRS)] {
        let target = mounted("overlay", &layers.over(&first.lower, &context(wanted)))?;
        want("label of a lower file", label(&format!("{target}/f"))?, wanted.to_owned())?;
        write(&format!("{target}/new"))?;
        want("label of a new file", label(&format!("{target}/new"))?, wanted.to_owned())?;
        want("its label in the upper layer", label(&format!("{}/new", layers.upper))?, wanted.to_owned())?;
        let relabelled = set_label(&format!("{target}/f"), wanted);
        want("relabel", relabelled, Err(Errno::OPNOTSUPP))?;
    }
    want("the lower file itself", label(&format!("{}/f", first.lower))?, before)?;
    let third = Layers::new()?;
    let all = [
        ("lowerdir", third.lower.as_str()),
        ("upperdir", third.upper.as_str()),
        ("workdir", third.work.as_str()),
        ("context", OURS),
    ];
    let target = dir()?;
    want("by fsconfig", configure_at(&target, "overlay", &all), Ok(()))?;
    want("label of a lower file by fsconfig", label(&format!("{target}/f"))?, OURS.to_owned())
}

/// On these kernels, layers need mount points: neither a descriptor nor a way around it through /proc is
/// taken. (Newer kernels take descriptors.)
pub(crate) fn detached() -> Outcome {
    let layers = Layers::new()?;
    let clone = clone(&layers.lower)?;
    let through_proc = format!("/proc/self/fd/{}", clone.as_raw_fd());
    let found = configure(
        "overlay",
        &[("lowerdir", &through_proc), ("upperdir", &layers.upper), ("workdir", &layers.work)],
    );
    want("a path to a detached layer", found.map(drop), Err((Step::Create, Errno::INVAL)))?;
    let opened =
        fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| format!("fsopen: {errno}"))?;
    let (by_path_only, by_reading) =
        if older_than(6, 5)? { (Errno::OPNOTSUPP, Errno::OPNOTSUPP) } else { (Errno::BADF, Errno::INVAL) };
    want("a layer by descriptor", fsconfig_set_fd(&opened, "lowerdir+", &clone), Err(by_path_only))?;
    let readable = openat(&clone, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| format!("open the clone: {errno}"))?;
    want("one open for reading", fsconfig_set_fd(&opened, "lowerdir+", &readable), Err(by_reading))?;
    let attached = dir()?;
    attach(&clone, &attached)?;
    let target = mounted("overlay", &layers.over(&attached, &context(OURS)))?;
    want("once attached", label(&format!("{target}/f"))?, OURS.to_owned())
}

fn clone(path: &str) -> Result<OwnedFd, String> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, path, flags).map_err(|errno| format!("open_tree {path}: {errno}"))
}

fn attach(mount: &OwnedFd, target: &str) -> Outcome {
    move_mount(mount, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|errno| format!("attach to {target}: {errno}"))
}

/// Owners change, the context does not; which filesystems can be idmapped depends on the kernel.
pub(crate) fn idmapped() -> Outcome {
    let disk = Disk::new()?;
    let ext4 = disk.mounted(&context(OURS))?;
    let clone = idmapped_at(&ext4)?.map_err(|error| format!("ext4: {error}"))?;
    want("label through the clone", label(&format!("{clone}/f"))?, OURS.to_owned())?;
    want("options of the clone", options(&clone)?, format!("rw,context=\"{OURS}\""))?;
    let owner = std::fs::metadata(format!("{clone}/f")).map_err(|error| error.to_string())?.uid();
    want("owner through the clone", u64::from(owner), FIRST)?;
    let tmpfs = idmapped_at(&mounted("tmpfs", &context(OURS))?)?;
    want("tmpfs is refused", refused(&tmpfs), older_than(6, 3)?)?;
    let layers = Layers::new()?;
    let overlay = idmapped_at(&mounted("overlay", &layers.over(&layers.lower, &context(OURS)))?)?;
    want("overlay is refused", refused(&overlay), true)
}

fn refused(result: &Result<String, kernel::Error>) -> bool {
    matches!(result, Err(kernel::Error::Idmap { errno: Errno::INVAL, .. }))
}

/// An idmapped clone of what is mounted there, at a new directory.
fn idmapped_at(source: &str) -> Result<Result<String, kernel::Error>, String> {
    let map = [IdMapping::new(0, FIRST, FIRST).map_err(|error| error.to_string())?];
    let userns = UsernsFd::create(&map, &map).map_err(|error| error.to_string())?;
    let target = dir()?;
    let clone = DetachedMount::idmapped(Path::new(source), &userns, Access::ReadWrite, Submounts::Without);
    Ok(clone.and_then(|clone| clone.attach(Path::new(&target))).map(|()| target))
}

/// For the facts about processes.
pub(crate) fn idmapped_clone(source: &str) -> Result<String, String> {
    idmapped_at(source)?.map_err(|error| error.to_string())
}

/// Prints the filesystem's name if it can be idmapped.
pub(crate) fn try_idmap(path: &str) -> Outcome {
    match probe::idmap(Path::new(path)) {
        Answer::Works(name) => println!("{name}"),
        Answer::Refused(refusal) => return Err(refusal.cause),
    }
    Ok(())
}
