//! The kubelet's root directory: drivers of volumes, plugins and installers look for its parts by name.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Its directories, with the modes that a kubelet gives them.
const PARTS: [(&str, u32); 6] = [
    ("pods", 0o750),
    ("plugins", 0o750),
    ("plugins_registry", 0o750),
    ("device-plugins", 0o750),
    ("pod-resources", 0o750),
    ("checkpoints", 0o700),
];
const MODE: u32 = 0o750;

/// Makes the root directory with its parts, and returns its path without links. Directories that exist keep their modes.
///
/// # Errors
/// If one cannot be made, or another user can write to it or to a directory above it: root would then mount and remove
/// where that user's links lead.
pub fn make_root_dir(dir: &Path) -> Result<PathBuf> {
    let root = durable::make_owned_dirs(dir, MODE)?;
    for (name, mode) in PARTS {
        let part = root.join(name);
        if part.exists() {
            durable::check_ownership_as_root(&part)?;
            continue;
        }
        durable::make_owned_dirs(&part, mode)?;
        // Whatever the umask.
        fs::set_permissions(&part, fs::Permissions::from_mode(mode)).map_err(Error::file("change", &part))?;
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_made_with_a_kubelets_modes_and_existing_ones_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("lib/kubelet");
        fs::create_dir_all(dir.join("plugins")).unwrap();
        fs::set_permissions(dir.join("plugins"), fs::Permissions::from_mode(0o755)).unwrap();
        let root = make_root_dir(&dir).unwrap();
        let mode = |name: &str| root.join(name).metadata().unwrap().permissions().mode() & 0o7777;
        let parts = ["pods", "plugins", "plugins_registry", "device-plugins", "pod-resources", "checkpoints"];
        assert_eq!(parts.map(mode), [0o750, 0o755, 0o750, 0o750, 0o750, 0o700]);
        make_root_dir(&dir).unwrap();
    }

    #[test]
    fn a_root_directory_that_others_can_write_to_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let open = home.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make_root_dir(&open).is_err() && make_root_dir(&open.join("kubelet")).is_err());
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let root = make_root_dir(&open.join("kubelet")).unwrap();
        fs::set_permissions(root.join("pods"), fs::Permissions::from_mode(0o757)).unwrap();
        make_root_dir(&root).unwrap_err();
    }
}
