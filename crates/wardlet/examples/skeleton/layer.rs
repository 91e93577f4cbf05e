use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::scratch::{Scratch, directory};

const APPLETS: [&str; 6] = ["sh", "cat", "id", "ls", "stat", "touch"];
const DIRECTORIES: [&str; 7] = ["bin", "etc", "proc", "sys", "dev", "data", "root"];

/// A root filesystem layer as an image would bring it: owned by the IDs of the container, which on
/// disk are those of the host's root and of user 1000.
pub(crate) fn image_layer(scratch: &Scratch, busybox: &Path) -> anyhow::Result<PathBuf> {
    let layer = scratch.directory("layer")?;
    for name in DIRECTORIES {
        directory(&layer.join(name), 0o755)?;
    }
    directory(&layer.join("tmp"), 0o1777)?;
    let program = layer.join("bin/busybox");
    fs::copy(busybox, &program)
        .and_then(|_| fs::set_permissions(&program, Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot copy {} to {}", busybox.display(), program.display()))?;
    for applet in APPLETS {
        let link = layer.join("bin").join(applet);
        symlink("busybox", &link).with_context(|| format!("cannot make {}", link.display()))?;
    }
    file(&layer.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n", 0)?;
    file(&layer.join("etc/group"), "root:x:0:\nuser:x:1000:\n", 0)?;
    file(&layer.join("etc/motd"), "from the image\n", 1000)?;
    Ok(layer)
}

/// A volume as its owner left it, before any container saw it.
pub(crate) fn volume(scratch: &Scratch) -> anyhow::Result<PathBuf> {
    let volume = scratch.directory("volume")?;
    file(&volume.join("of-root"), "root's\n", 0)?;
    file(&volume.join("of-1000"), "user's\n", 1000)?;
    Ok(volume)
}

fn file(path: &Path, text: &str, owner: u32) -> anyhow::Result<()> {
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o644)))
        .and_then(|()| chown(path, Some(owner), Some(owner)))
        .with_context(|| format!("cannot make {}", path.display()))
}
