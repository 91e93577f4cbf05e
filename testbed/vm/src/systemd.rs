//! systemd for the guest: Debian's, unpacked and never installed, with the libraries that it needs, as one more archive
//! behind the base initramfs.
//!
//! Nothing of Debian's own units is started: the guest has one service, its agent. systemd answers root on its own
//! socket. The message bus and logind are there for tests that start them with units of their own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::cpio::Archive;
use crate::debian;
use crate::error::{Error, Result};

/// The service manager first: its version names the archive.
const PACKAGES: [&str; 28] = [
    "systemd",
    "libsystemd-shared",
    "libsystemd0",
    "libc6",
    "libacl1",
    "libapparmor1",
    "libaudit1",
    "libblkid1",
    "libcap-ng0",
    "libcap2",
    "libcrypt1",
    "dbus-daemon",
    "libdbus-1-3",
    "libexpat1",
    "libgcrypt20",
    "libgpg-error0",
    "libip4tc2",
    "libkmod2",
    "liblz4-1",
    "liblzma5",
    "libmount1",
    "libpam0g",
    "libpcre2-8-0",
    "libseccomp2",
    "libselinux1",
    "libssl3",
    "libuuid1",
    "libzstd1",
];
/// Programs that are brought along; of the packages' other files only the libraries are.
const PROGRAMS: [&str; 6] = [
    "lib/systemd/systemd",
    "bin/systemctl",
    "usr/bin/systemd-run",
    "lib/systemd/systemd-shutdown",
    "lib/systemd/systemd-logind",
    "usr/bin/dbus-daemon",
];
const AGENT: &str = include_str!("../guest/vm-agent.service");
/// Units that each boot starts from.
const TARGET: &str = "[Unit]\nDescription=the guest\nDefaultDependencies=no\nRequires=vm-agent.service\n";
/// To be raised when the archive becomes another one.
const LAYOUT: u32 = 2;

/// The archive, made now if no version of it is there.
pub(crate) fn of(cache: &Cache) -> Result<PathBuf> {
    if let Some(found) = newest(cache) {
        return Ok(found);
    }
    let _lock = cache.lock()?;
    newest(cache).map_or_else(|| build(cache), Ok)
}

fn newest(cache: &Cache) -> Option<PathBuf> {
    let entries = fs::read_dir(cache.path()).ok()?;
    let end = format!(".{LAYOUT}.cpio");
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("systemd-") && name.ends_with(&end)
    };
    entries.flatten().map(|entry| entry.path()).filter(is_ours).max()
}

fn build(cache: &Cache) -> Result<PathBuf> {
    let scratch = tempfile::tempdir_in(cache.path()).map_err(Error::file("write to", cache.path()))?;
    let unpacked = scratch.path().join("root");
    fs::create_dir(&unpacked).map_err(Error::file("make", &unpacked))?;
    eprintln!("vm: fetching systemd and its libraries");
    let version = debian::unpack_all(&PACKAGES, &unpacked)?;
    let mut archive = Archive::default();
    add(&mut archive, &unpacked, Path::new(""))?;
    archive.symlink("guest/sbin/init", "../lib/systemd/systemd");
    for (name, text) in [("vm-agent.service", AGENT), ("guest.target", TARGET)] {
        archive.file(&format!("guest/etc/systemd/system/{name}"), 0o644, text.as_bytes());
    }
    archive.file("guest/etc/machine-id", 0o444, b"00000000000000000000000000000001\n");
    archive.file("guest/etc/os-release", 0o644, b"NAME=guest\nID=guest\n");
    let unfinished = scratch.path().join("systemd.cpio");
    fs::write(&unfinished, archive.finish()).map_err(Error::file("write", &unfinished))?;
    let place = cache.path().join(format!("systemd-{version}.{LAYOUT}.cpio"));
    fs::rename(&unfinished, &place).map_err(Error::file("make", &place))?;
    Ok(place)
}

/// Libraries and [`PROGRAMS`] below `root`, in the guest's root.
fn add(archive: &mut Archive, root: &Path, below: &Path) -> Result<()> {
    let dir = root.join(below);
    for entry in fs::read_dir(&dir).map_err(Error::file("read", &dir))?.flatten() {
        let path = below.join(entry.file_name());
        let full = entry.path();
        let kind = entry.file_type().map_err(Error::file("look at", &full))?;
        let name = path.to_string_lossy();
        if kind.is_dir() {
            add(archive, root, &path)?;
        } else if !is_wanted(&name) {
            continue;
        } else if kind.is_symlink() {
            let target = fs::read_link(&full).map_err(Error::file("read", &full))?;
            archive.symlink(&format!("guest/{name}"), &target.to_string_lossy());
        } else {
            let content = fs::read(&full).map_err(Error::file("read", &full))?;
            let mode = fs::metadata(&full).map_err(Error::file("read", &full))?.permissions().mode();
            archive.file(&format!("guest/{name}"), mode, &content);
        }
    }
    Ok(())
}

fn is_wanted(path: &str) -> bool {
    let is_library =
        path.contains(".so") && ["lib/", "lib64/", "usr/lib/"].iter().any(|dir| path.starts_with(dir));
    PROGRAMS.contains(&path) || (is_library && !path.contains("/gconv/") && !path.contains("/security/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_libraries_are_brought_along_and_nothing_else() {
        for wanted in ["bin/systemctl", "lib/x86_64-linux-gnu/libc.so.6", "lib64/ld-linux-x86-64.so.2"] {
            assert!(is_wanted(wanted), "{wanted}");
        }
        for other in ["lib/systemd/system/getty@.service", "usr/bin/busctl", "usr/share/doc/x.so/a"] {
            assert!(!is_wanted(other), "{other}");
        }
    }
}
