use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::cpio::Archive;
use crate::error::{Error, Result};
use crate::host;

/// A file of the host that the guest has from the start. A program that is not static brings the shared
/// libraries that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    host: PathBuf,
    guest: String,
    is_lean: bool,
}

impl Payload {
    /// The file `host`, as `guest` in the guest.
    #[must_use]
    pub fn new(host: &Path, guest: &str) -> Self {
        Self { host: host.to_owned(), guest: guest.to_owned(), is_lean: false }
    }

    /// Our own program `name`, as it was built for this run, without what only debuggers read: the guest has its files
    /// in memory. It is looked for where `WARDLET_PROGRAMS` says, else above the program that asks.
    #[must_use]
    pub fn of_ours(name: &str, guest: &str) -> Self {
        let above = || Some(std::env::current_exe().ok()?.parent()?.parent()?.to_owned());
        let programs = std::env::var_os("WARDLET_PROGRAMS").map(PathBuf::from).or_else(above);
        Self { is_lean: true, ..Self::new(&programs.unwrap_or_default().join(name), guest) }
    }

    pub(crate) fn add_to(&self, archive: &mut Archive) -> Result<()> {
        if self.is_lean {
            let work =
                tempfile::tempdir().map_err(Error::file("make a directory in", &std::env::temp_dir()))?;
            let lean = work.path().join("program");
            host::run(host::command("strip").arg("-o").arg(&lean).arg(&self.host))?;
            add(archive, &lean, &self.guest)?;
        } else {
            add(archive, &self.host, &self.guest)?;
        }
        for library in host::libraries(&self.host)? {
            add(archive, &library, &library.to_string_lossy())?;
        }
        Ok(())
    }
}

/// The guest's root is the directory `guest` of the initramfs.
fn add(archive: &mut Archive, host: &Path, guest: &str) -> Result<()> {
    let content = fs::read(host).map_err(Error::file("read", host))?;
    let permissions = fs::metadata(host).map_err(Error::file("read", host))?.permissions().mode();
    archive.file(&format!("guest/{}", guest.trim_start_matches('/')), permissions, &content);
    Ok(())
}

/// `HOST:GUEST`, as on the command line.
impl std::str::FromStr for Payload {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.rsplit_once(':') {
            Some((host, guest)) if !host.is_empty() && guest.starts_with('/') => {
                Ok(Self::new(Path::new(host), guest))
            }
            _ => Err(format!("{text:?} is not HOST:GUEST, a file here and an absolute path in the guest")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_read_as_host_and_guest_path() {
        assert_eq!("target/a:/bin/a".parse(), Ok(Payload::new(Path::new("target/a"), "/bin/a")));
        for wrong in ["a", "a:b", ":/b", ""] {
            assert!(wrong.parse::<Payload>().is_err(), "{wrong}");
        }
    }
}
