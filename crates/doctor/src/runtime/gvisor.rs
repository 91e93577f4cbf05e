//! gVisor's shim, whose own configuration file names the program to run.

use std::fs;
use std::path::{Path, PathBuf};

use census::HostRoot;

/// What containerd calls it.
pub(super) const TYPE: &str = "io.containerd.runsc.v1";
/// Its file, unless containerd says another.
const USUAL: &str = "/run/containerd/runsc/config.toml";

/// The program that it runs: `binary_name`, before the first table of its file. `None` where that is not said, and
/// it runs the runsc that it finds.
pub(super) fn binary(host_root: &HostRoot, file: Option<&Path>) -> Option<PathBuf> {
    let text = fs::read_to_string(host_root.path(file.unwrap_or(Path::new(USUAL)))).ok()?;
    let head = text.lines().take_while(|line| !line.trim_start().starts_with('['));
    let mut set = head.filter_map(|line| line.split_once('='));
    set.find(|(key, _)| key.trim() == "binary_name").and_then(|(_, value)| quoted(value))
}

/// What is between the quotes.
fn quoted(value: &str) -> Option<PathBuf> {
    let value = value.trim_start();
    let quote = value.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
    let (name, _) = value.strip_prefix(quote)?.split_once(quote)?;
    (!name.is_empty()).then(|| PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shims_program_is_the_one_at_the_head_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let found = |text: &str| {
            fs::write(dir.path().join("runsc.toml"), text).unwrap();
            binary(&HostRoot::new(dir.path()), Some(Path::new("/runsc.toml")))
        };
        let ours = Some(PathBuf::from("/usr/bin/wardlet-oci-runsc"));
        assert_eq!(found("log_level = \"x\"\nbinary_name = \"/usr/bin/wardlet-oci-runsc\" # ours\n"), ours);
        assert_eq!(found("binary_name='/usr/bin/wardlet-oci-runsc'\n[runsc_config]\n"), ours);
        for none in ["", "# binary_name = \"/x\"", "[runsc_config]\nbinary_name = \"/x\"", "binary_name = 1"]
        {
            assert_eq!(found(none), None, "{none:?}");
        }
        assert_eq!(binary(&HostRoot::new(dir.path()), None), None);
    }
}
