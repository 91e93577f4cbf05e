//! What comes from Debian: the programs of the host and the kernels. Kernels are unpacked, never installed.

use std::path::Path;

use crate::error::{Error, Result};
use crate::host;
use crate::series::Series;

/// Each package with a program by which it is known to be there.
const NEEDS: [(&str, &str); 9] = [
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("checkpolicy", "checkpolicy"),
    ("busybox-static", "busybox"),
    ("e2fsprogs", "mkfs.ext4"),
    ("kmod", "depmod"),
    ("xz-utils", "xz"),
    ("util-linux", "setpriv"),
    ("libc-bin", "ldd"),
    ("tar", "tar"),
];

/// A kernel package and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// Installs the packages of which a program is missing, and says so.
pub(crate) fn ensure_programs() -> Result<()> {
    let missing: Vec<&str> =
        NEEDS.into_iter().filter(|(_, program)| !is_there(program)).map(|(package, _)| package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Error::PackagesMissing { packages: missing });
    }
    eprintln!("vm: installing the Debian packages {}", missing.join(" "));
    update()?;
    let install = ["-q", "-y", "--no-install-recommends", "install"];
    host::run(
        host::command("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(install).args(&missing),
    )?;
    Ok(())
}

/// busybox goes into the guest, so only the static one will do.
fn is_there(program: &str) -> bool {
    host::find(program).is_some_and(|path| program != "busybox" || host::is_static(&path))
}

/// The newest kernel of the series that apt can get here. Asks the archive once if the lists lack it.
pub(crate) fn kernel(series: Series) -> Result<Package> {
    if let Some(found) = candidate(series)? {
        return Ok(found);
    }
    if rustix::process::geteuid().is_root() {
        update()?;
    }
    candidate(series)?.ok_or_else(|| Error::NoPackage { series, package: series.meta_package().to_owned() })
}

fn candidate(series: Series) -> Result<Option<Package>> {
    let depends = host::read(apt_cache().args(["depends", series.meta_package()])).unwrap_or_default();
    let Some(name) = first_dependency(&depends) else { return Ok(None) };
    let policy = host::read(apt_cache().args(["policy", &name]))?;
    Ok(candidate_version(&policy).map(|version| Package { name, version }))
}

fn apt_cache() -> std::process::Command {
    let mut command = host::command("apt-cache");
    command.env("LC_ALL", "C");
    command
}

fn first_dependency(depends: &str) -> Option<String> {
    depends.lines().find_map(|line| line.trim().strip_prefix("Depends: ")).map(str::to_owned)
}

fn candidate_version(policy: &str) -> Option<String> {
    let version = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (version != "(none)").then(|| version.to_owned())
}

fn update() -> Result<()> {
    eprintln!("vm: fetching the package lists");
    host::run(host::command("apt-get").args(["-q", "update"])).map(drop)
}

/// Fetches the package and unpacks it into `into`.
pub(crate) fn unpack(package: &Package, into: &Path) -> Result<()> {
    let wanted = format!("{}={}", package.name, package.version);
    host::run(host::command("apt-get").args(["-q", "download", &wanted]).current_dir(into))?;
    let archive = only_deb(into)?;
    host::run(host::command("dpkg-deb").arg("-x").arg(&archive).arg(into))?;
    std::fs::remove_file(&archive).map_err(Error::file("remove", &archive))
}

/// Fetches the newest of these packages and unpacks them into `into`. Returns the version of the first one.
pub(crate) fn unpack_all(packages: &[&str], into: &Path) -> Result<String> {
    let fetch =
        || host::run(host::command("apt-get").args(["-q", "download"]).args(packages).current_dir(into));
    if fetch().is_err() {
        // A package list that is older than the archive names packages that are gone.
        update()?;
        fetch()?;
    }
    let mut version = String::new();
    while let Ok(archive) = only_deb(into) {
        host::run(host::command("dpkg-deb").arg("-x").arg(&archive).arg(into))?;
        let fields = host::read(
            host::command("dpkg-deb").args(["-W", "--showformat=${Package} ${Version}"]).arg(&archive),
        )?;
        if let Some((name, found)) = fields.split_once(' ')
            && packages.first() == Some(&name)
        {
            found.trim().clone_into(&mut version);
        }
        std::fs::remove_file(&archive).map_err(Error::file("remove", &archive))?;
    }
    Ok(version)
}

fn only_deb(directory: &Path) -> Result<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).map_err(Error::file("read", directory))?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| Error::Incomplete {
            what: "the downloaded package".into(),
            place: directory.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_what_the_meta_package_depends_on() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-54-cloud-amd64\n  Suggests: grub\n";
        assert_eq!(first_dependency(text).as_deref(), Some("linux-image-6.1.0-54-cloud-amd64"));
    }

    #[test]
    fn a_package_without_candidate_is_no_package() {
        assert_eq!(candidate_version("x:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(candidate_version("x:\n  Candidate: 6.1.190-1\n").as_deref(), Some("6.1.190-1"));
    }
}
