use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

const PACKAGES: &str = "apt-get install runc busybox-static";
const BUSYBOX: &str = "/bin/busybox";
/// Where administrators' programs are, also for a user whose PATH leaves them out.
const ADMIN_PATH: [&str; 2] = ["/usr/sbin", "/sbin"];
/// The path of a program's dynamic loader, if it has one, stands in its first page.
const FIRST_PAGE: u64 = 4096;

/// The programs of others that the skeleton runs.
pub(crate) struct Tools {
    pub(crate) runc: PathBuf,
    pub(crate) busybox: PathBuf,
}

/// Something that must be there before anything is tried.
#[derive(Debug)]
pub(crate) struct Missing {
    what: &'static str,
    hint: &'static str,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.what)
    }
}

impl std::error::Error for Missing {}

/// Finds them all, or says which is missing.
pub(crate) fn find() -> anyhow::Result<Tools> {
    let us = fs::metadata("/proc/self").context("cannot read /proc/self")?.uid();
    if us != 0 {
        return missing("the walking skeleton makes mounts and must run as root", "sudo make run");
    }
    let Some(runc) = program("runc") else {
        return missing("runc is not installed", PACKAGES);
    };
    let busybox = PathBuf::from(BUSYBOX);
    if !executable(&busybox) {
        return missing("/bin/busybox is not installed", PACKAGES);
    }
    if has_loader(&busybox)? {
        return missing("/bin/busybox is not statically linked, so it cannot run in an empty root", PACKAGES);
    }
    Ok(Tools { runc, busybox })
}

/// What the reader can do about an error, where that is known.
pub(crate) fn hint(error: &anyhow::Error) -> Option<&'static str> {
    let missing = error.downcast_ref::<Missing>().map(|missing| missing.hint);
    missing.or_else(|| error.downcast_ref::<kernel::Error>().and_then(kernel::Error::hint))
}

pub(crate) fn missing<T>(what: &'static str, hint: &'static str) -> anyhow::Result<T> {
    Err(Missing { what, hint }.into())
}

fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(ADMIN_PATH.map(PathBuf::from));
    places.map(|place| place.join(name)).find(|file| executable(file))
}

fn executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn has_loader(program: &Path) -> anyhow::Result<bool> {
    let mut start = vec![];
    File::open(program)
        .and_then(|file| file.take(FIRST_PAGE).read_to_end(&mut start))
        .with_context(|| format!("cannot read {}", program.display()))?;
    Ok(start.windows(4).any(|bytes| bytes == b"/ld-"))
}
