use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags};

/// The directory under which `/etc`, `/proc` and `/var` of the host are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRoot(PathBuf);

impl Default for HostRoot {
    fn default() -> Self {
        Self(PathBuf::from("/"))
    }
}

impl HostRoot {
    /// The host whose root directory is seen at `path`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Whether this is the root of the calling process itself.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Where the host's `path` is found from here. Symbolic links are not looked at.
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Links in the path, absolute ones too, are followed as the host itself would follow them.
    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let top = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, &self.0, top, Mode::empty())?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        Ok(rustix::fs::openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?)
    }

    /// The content of the host's `path`.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        File::from(self.open(path.as_ref(), OFlags::RDONLY)?).read_to_end(&mut content)?;
        Ok(content)
    }

    /// The names in the host's directory `path`, sorted.
    pub(crate) fn list(&self, path: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.open(path.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY)?)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_absolute_link_is_followed_inside_the_host_root() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("usr/etc")).unwrap();
        std::fs::write(dir.path().join("usr/etc/passwd"), "inside").unwrap();
        symlink("/usr/etc", dir.path().join("etc")).unwrap();
        assert_eq!(HostRoot::new(dir.path()).read("/etc/passwd").unwrap(), b"inside");
    }

    #[test]
    fn a_path_of_the_host_is_put_under_its_root() {
        assert_eq!(HostRoot::new("/host").path("/var/lib/x"), Path::new("/host/var/lib/x"));
        assert_eq!(HostRoot::default().path("/var/lib/x"), Path::new("/var/lib/x"));
    }
}
