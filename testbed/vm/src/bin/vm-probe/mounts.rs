//! Mounts with a context: how it is said, where it shows, what it cannot do.

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};

use crate::lab::{
    Disk, OURS, Outcome, SHARED, Step, THEIRS, UNKNOWN, configure_at, context, dir, exists, kernel_said,
    label, mount, mounted, options, set_label, tool, unmount, want, write,
};

const REFUSED: Result<(), Errno> = Err(Errno::INVAL);

/// A comma ends an option of mount(2), so a label with categories needs quotes there; fsconfig(2) takes
/// the label as it is, and quotes would be part of it.
pub(crate) fn quoting() -> Outcome {
    let disk = Disk::new()?;
    want("mount, quoted", disk.try_mount(&context(OURS))?, Ok(()))?;
    want("mount, bare", disk.try_mount(&format!("context={OURS}"))?, REFUSED)?;
    kernel_said("Unknown parameter 'c2'")?;
    want("mount, bare, no comma", disk.try_mount(&format!("context={SHARED}"))?, Ok(()))?;
    want("mount, unknown type", disk.try_mount(&context(UNKNOWN))?, REFUSED)?;
    let refused = Err((Step::Set("context"), Errno::INVAL));
    let quoted = format!("\"{OURS}\"");
    for (label, wanted) in [(OURS, Ok(())), (quoted.as_str(), refused), (UNKNOWN, refused)] {
        let target = dir()?;
        let found = configure_at(&target, "ext4", &[("source", &disk.device), ("context", label)]);
        want(&format!("fsconfig, {label}"), found, wanted)?;
        if found.is_ok() {
            unmount(&target)?;
        }
    }
    Ok(())
}

/// How wardlet verifies a context after another program has mounted: quotes if there is a comma, categories in the
/// kernel's own order.
pub(crate) fn mountinfo() -> Outcome {
    let disk = Disk::new()?;
    let shown = |options_given: &str| {
        let target = disk.mounted(options_given)?;
        let shown = options(&target)?;
        unmount(&target)?;
        Ok::<_, String>(shown)
    };
    want("no context", shown("")?, "rw,seclabel".to_owned())?;
    want("with categories", shown(&context(OURS))?, format!("rw,context=\"{OURS}\""))?;
    let turned = OURS.replace("c1,c2", "c2,c1");
    want("categories turned", shown(&context(&turned))?, format!("rw,context=\"{OURS}\""))?;
    want("no categories", shown(&context(SHARED))?, format!("rw,context={SHARED}"))
}

/// A device can be mounted many times, but only with the context it was mounted with first.
pub(crate) fn one_superblock() -> Outcome {
    let disk = Disk::new()?;
    let first = disk.mounted(&context(OURS))?;
    want("another context", disk.try_mount(&context(THEIRS))?, REFUSED)?;
    kernel_said("Same superblock, different security settings")?;
    want("no context", disk.try_mount("")?, REFUSED)?;
    want("the same context", disk.try_mount(&context(OURS))?, Ok(()))?;
    want("the same, turned", disk.try_mount(&context(&OURS.replace("c1,c2", "c2,c1")))?, Ok(()))?;
    let found = configure_at(&dir()?, "ext4", &[("source", &disk.device), ("context", THEIRS)]);
    want("another context by fsconfig", found, Err((Step::Create, Errno::INVAL)))?;
    unmount(&first)?;
    let plain = disk.mounted("")?;
    want("a context where none was", disk.try_mount(&context(OURS))?, REFUSED)?;
    unmount(&plain)?;
    want("another context when all are gone", disk.try_mount(&context(THEIRS))?, Ok(()))
}

/// The trap is the bind mount: it takes another context without a word, and does nothing with it.
pub(crate) fn binds_and_remounts() -> Outcome {
    let disk = Disk::new()?;
    let first = disk.mounted(&context(OURS))?;
    let bind = dir()?;
    let data = std::ffi::CString::new(context(THEIRS)).map_err(|error| error.to_string())?;
    let bound = rustix::mount::mount(first.as_str(), bind.as_str(), "", MountFlags::BIND, &*data);
    want("a bind with another context", bound, Ok(()))?;
    want("label below the bind", label(&format!("{bind}/f"))?, OURS.to_owned())?;
    want("options of the bind", options(&bind)?, format!("rw,context=\"{OURS}\""))?;
    unmount(&bind)?;
    let again = mount_remount(first.as_str(), MountFlags::empty(), context(THEIRS));
    want("a remount with another context", again, REFUSED)?;
    let again = mount_remount(first.as_str(), MountFlags::RDONLY, "");
    want("a remount without context", again, Ok(()))?;
    want("options after it", options(&first)?, format!("ro,context=\"{OURS}\""))
}

/// Files keep the label they have on disk, and while the context is in force no process can change it.
pub(crate) fn not_on_disk() -> Outcome {
    let disk = Disk::new()?;
    let plain = disk.mounted("")?;
    set_label(&format!("{plain}/f"), SHARED).map_err(|errno| format!("relabel: {errno}"))?;
    unmount(&plain)?;
    let ours = disk.mounted(&context(OURS))?;
    want("label of an old file", label(&format!("{ours}/f"))?, OURS.to_owned())?;
    write(&format!("{ours}/new"))?;
    want("label of a new file", label(&format!("{ours}/new"))?, OURS.to_owned())?;
    want("relabel", set_label(&format!("{ours}/f"), SHARED), Err(Errno::OPNOTSUPP))?;
    unmount(&ours)?;
    let plain = disk.mounted("")?;
    want("old file, later", label(&format!("{plain}/f"))?, SHARED.to_owned())?;
    let later = label(&format!("{plain}/new"))?;
    want("new file, later", later.as_str(), "system_u:object_r:unlabeled_t:s0")
}

/// Also for a process that is root only in a user namespace.
pub(crate) fn tmpfs() -> Outcome {
    for wanted in [OURS, THEIRS] {
        let target = mounted("tmpfs", &context(wanted))?;
        write(&format!("{target}/f"))?;
        want("label of a file", label(&format!("{target}/f"))?, wanted.to_owned())?;
    }
    let root = mounted("tmpfs", &format!("rootcontext=\"{OURS}\""))?;
    want("options", options(&root)?.contains("seclabel"), true)?;
    want("defcontext", mount("none", &dir()?, "tmpfs", &format!("defcontext={SHARED}")), REFUSED)?;
    let target = dir()?;
    let script = format!("mount -t tmpfs -o '{}' none {target} && touch {target}/f", context(OURS));
    tool(&["unshare", "-U", "-r", "-m", "sh", "-c", &script])?;
    want("it stays in there", exists(&format!("{target}/f")), false)
}
