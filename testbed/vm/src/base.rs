//! The base initramfs of a kernel: everything but the agent and the payload, which come with each boot.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::cache::Installed;
use crate::cpio::Archive;
use crate::error::{Error, Result};
use crate::host;
use crate::payload::Payload;

const POLICY: &str = include_str!("../policy/policy.conf");
const INIT: &str = include_str!("../guest/init");
const MAIN: &str = include_str!("../guest/main");
/// The newest policy format that kernel 6.1 and Debian 12's compiler have in common.
const POLICY_FORMAT: &str = "33";
const CATEGORIES: u32 = 1024;
/// What the first stage calls.
const EARLY_APPLETS: [&str; 11] =
    ["cat", "chmod", "cp", "dd", "dmesg", "insmod", "mkdir", "mount", "poweroff", "switch_root", "tail"];
/// Programs of the host that the guest has beside busybox.
const PROGRAMS: [&str; 1] = ["mkfs.ext4"];
/// To be raised when the code below makes something else from the same files.
const LAYOUT: u32 = 2;

/// The kernel's base by today's recipe, made now if it is not there. A changed policy or first process
/// asks for no new kernel.
pub(crate) fn of(installed: &Installed) -> Result<PathBuf> {
    let place = installed.path().join(format!("base-{}.cpio", recipe()));
    if !place.exists() {
        let scratch =
            tempfile::tempdir_in(installed.path()).map_err(Error::file("write to", installed.path()))?;
        let unfinished = scratch.path().join("base.cpio");
        let content = archive(installed, &compile_policy(scratch.path())?)?;
        write(&unfinished, &content)?;
        fs::rename(&unfinished, &place).map_err(Error::file("make", &place))?;
    }
    Ok(place)
}

fn recipe() -> String {
    let mut hasher = crc32fast::Hasher::new();
    for part in [POLICY, INIT, MAIN, &LAYOUT.to_string()] {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    format!("{:08x}", hasher.finalize())
}

fn archive(installed: &Installed, policy: &[u8]) -> Result<Vec<u8>> {
    let busybox = host::find("busybox").unwrap_or_default();
    let program = fs::read(&busybox).map_err(Error::file("read", &busybox))?;
    let mut archive = Archive::default();
    archive.file("init", 0o755, INIT.as_bytes());
    archive.file("policy", 0o600, policy);
    archive.file("bin/busybox", 0o755, &program);
    for applet in EARLY_APPLETS {
        archive.symlink(&format!("bin/{applet}"), "busybox");
    }
    add_early_modules(&mut archive, &installed.early_modules())?;
    archive.file("guest/sbin/main", 0o755, MAIN.as_bytes());
    archive.file("guest/bin/busybox", 0o755, &program);
    let applets = host::read(host::command("busybox").arg("--list"))?;
    for applet in applets.lines().filter(|applet| *applet != "busybox") {
        archive.symlink(&format!("guest/bin/{applet}"), "busybox");
    }
    for (name, text) in [("passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("group", "root:x:0:\n")] {
        archive.file(&format!("guest/etc/{name}"), 0o644, text.as_bytes());
    }
    for name in PROGRAMS {
        let path = host::find(name).unwrap_or_default();
        Payload::new(&path, &format!("/sbin/{name}")).add_to(&mut archive)?;
    }
    Ok(archive.finish())
}

fn add_early_modules(archive: &mut Archive, from: &Path) -> Result<()> {
    for entry in fs::read_dir(from).map_err(Error::file("read", from))?.flatten() {
        let content = fs::read(entry.path()).map_err(Error::file("read", &entry.path()))?;
        archive.file(&format!("modules/{}", entry.file_name().to_string_lossy()), 0o644, &content);
    }
    Ok(())
}

fn compile_policy(scratch: &Path) -> Result<Vec<u8>> {
    let (source, binary) = (scratch.join("policy.conf"), scratch.join("policy"));
    write(&source, policy_source().as_bytes())?;
    let mut compiler = host::command("checkpolicy");
    compiler.args(["-M", "-U", "allow", "-c", POLICY_FORMAT, "-o"]);
    host::run(compiler.arg(&binary).arg(&source))?;
    fs::read(&binary).map_err(Error::file("read", &binary))
}

fn policy_source() -> String {
    let categories: String = (0..CATEGORIES).map(|number| format!("category c{number};\n")).collect();
    POLICY.replace("@CATEGORIES@\n", &categories)
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    let file = fs::File::create(path).and_then(|mut file| file.write_all(content));
    file.map_err(Error::file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_has_every_category_once() {
        let source = policy_source();
        assert!(source.contains("category c0;\n") && source.contains("category c1023;\n"));
        assert_eq!(source.matches("\ncategory ").count(), 1024);
        assert!(!source.contains('@'));
    }
}
