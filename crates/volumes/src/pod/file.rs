//! One file of a volume, read.

use std::io::Read as _;
use std::path::Path;

use kernel::{Dir, Kind, LastLink, Within};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::record::errno_of;
use types::VolumeName;

/// The longest file that is read.
const LONGEST: u64 = 1 << 20;

/// The content of a regular file below the volume's directory; `None` if there is none. Symbolic links are followed with the
/// volume as their root; a pipe or a device is not opened.
pub(crate) fn read(volume: &VolumeName, dir: &Dir, path: &Path) -> Result<Option<Vec<u8>>> {
    let bad = |why| Error::BadFile { volume: volume.clone(), path: path.to_owned(), why };
    let node = match dir.node(path, Within::AsRoot, LastLink::Follow) {
        Ok(node) => node,
        Err(kernel::Error::Below { errno: Errno::NOENT | Errno::NOTDIR, .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if node.stat()?.kind != Kind::File {
        return Err(bad("is no regular file"));
    }
    let file = node.reopen(OFlags::RDONLY | OFlags::NONBLOCK)?;
    let mut content = Vec::new();
    let length = file.take(LONGEST + 1).read_to_end(&mut content);
    let length = length.map_err(|error| Error::io("read", path, errno_of(&error)))?;
    if u64::try_from(length).is_ok_and(|length| length <= LONGEST) {
        Ok(Some(content))
    } else {
        Err(bad("is longer than 1 MiB"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_read_within_its_volume_and_nothing_else_is() {
        let root = tempfile::tempdir().unwrap();
        let volume = root.path().join("volume");
        fs::create_dir_all(volume.join("out")).unwrap();
        fs::write(root.path().join("host"), "of the host").unwrap();
        fs::write(volume.join("out/env"), "A='1'").unwrap();
        symlink("../../host", volume.join("above")).unwrap();
        symlink(root.path().join("host"), volume.join("absolute")).unwrap();
        symlink("/out/env", volume.join("link")).unwrap();
        fs::write(volume.join("long"), vec![b'x'; (1 << 20) + 1]).unwrap();
        let dir = Dir::open(&volume).unwrap();
        let name = VolumeName::new("work").unwrap();
        let read = |path: &str| super::read(&name, &dir, Path::new(path));
        for path in ["out/env", "link"] {
            assert_eq!(read(path).unwrap().as_deref(), Some(&b"A='1'"[..]), "{path}");
        }
        for path in ["none", "out/env/none", "above", "absolute", "../host"] {
            assert_eq!(read(path).unwrap(), None, "{path}");
        }
        for path in ["out", "long"] {
            let error = read(path).unwrap_err();
            assert!(matches!(error, Error::BadFile { .. }), "{path}: {error}");
        }
    }
}
