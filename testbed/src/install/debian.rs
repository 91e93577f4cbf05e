//! Debian's packages, without starting a service: what they bring is run by us or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::{Error, Result, program};

/// Whether a package's sign, a program's name or an absolute path, is there.
pub(crate) fn present(sign: &str) -> bool {
    match sign {
        "busybox" => static_busybox().is_some(),
        path if path.starts_with('/') => Path::new(path).exists(),
        name => program::find(name).is_some(),
    }
}

/// A busybox that runs in an empty filesystem: Debian's plain one is linked against libc.
pub(crate) fn static_busybox() -> Option<std::path::PathBuf> {
    let path = program::find("busybox")?;
    let bytes = fs::read(&path).ok()?;
    let head = bytes.get(..4096.min(bytes.len()))?;
    (!head.windows(4).any(|window| window == b"/ld-")).then_some(path)
}

/// Installs those packages whose sign is missing.
pub(super) fn install(packages: &[(&str, &str)], progress: &mut dyn FnMut(&str)) -> Result<()> {
    let missing: Vec<&str> =
        packages.iter().filter(|(_, sign)| !present(sign)).map(|(package, _)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if program::find("apt-get").is_none() {
        return Err(Error::CannotBeHad {
            what: missing.join(", "),
            cause: "there is no apt-get; install them with this system's own package manager".into(),
        });
    }
    progress(&format!("apt-get install {}", missing.join(" ")));
    let policy = ServicePolicy::deny()?;
    let _ = program::run(apt().args(["update", "-q"]));
    let installed =
        program::run(apt().args(["install", "-q", "-y", "--no-install-recommends"]).args(&missing));
    drop(policy);
    installed.map(|_| ())
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["-o", "DPkg::Lock::Timeout=300"]);
    command
}

/// Debian asks this file before a package starts its service. Ours says no, and goes when we are done;
/// one that is there already is left alone.
struct ServicePolicy {
    ours: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl ServicePolicy {
    fn deny() -> Result<Self> {
        if Path::new(POLICY).exists() {
            return Ok(Self { ours: false });
        }
        fs::write(POLICY, "#!/bin/sh\nexit 101\n").map_err(Error::file("write", POLICY))?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(POLICY, mode).map_err(Error::file("make executable", POLICY))?;
        Ok(Self { ours: true })
    }
}

impl Drop for ServicePolicy {
    fn drop(&mut self) {
        if self.ours {
            let _ = fs::remove_file(POLICY);
        }
    }
}
