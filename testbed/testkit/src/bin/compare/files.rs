//! A directory as lines: type and mode of each file, keys and values of JSON and YAML files.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::mask::Mask;
use crate::shape::{self, Values};

/// Everything below the directory, sorted by file. A file that is removed meanwhile is left out.
pub(crate) fn listed(directory: &Path, mask: &Mask) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    if directory.exists() {
        list(directory, Path::new(""), mask, &mut files)?;
    }
    Ok(shape::sorted(files))
}

fn list(directory: &Path, below: &Path, mask: &Mask, files: &mut Vec<Vec<String>>) -> anyhow::Result<()> {
    let here = directory.join(below);
    let Ok(entries) = fs::read_dir(&here) else { return Ok(()) };
    let device = fs::symlink_metadata(&here).map(|found| found.dev()).unwrap_or_default();
    for entry in entries {
        let entry = entry.with_context(|| here.display().to_string())?;
        let Ok(found) = fs::symlink_metadata(entry.path()) else { continue };
        let path = below.join(entry.file_name());
        // A file that is about to be renamed.
        if path.extension().is_some_and(|extension| extension == "tmp") {
            continue;
        }
        let name = mask.apply(&path.display().to_string());
        let kind = kind(found.file_type());
        let mut lines = vec![format!("{name} is a {kind} with mode {:04o}", found.mode() & 0o7777)];
        // What is mounted there is not the program's file.
        if found.is_dir() && found.dev() == device {
            list(directory, &path, mask, files)?;
        }
        if found.is_file() {
            let keys = contents(&entry.path(), mask);
            lines.extend(keys.into_iter().map(|line| format!("{name} {}", mask.apply(&line))));
        }
        files.push(lines);
    }
    Ok(())
}

/// Keys and values of a JSON or YAML file; nothing of another.
fn contents(path: &Path, mask: &Mask) -> Vec<String> {
    let text = || fs::read_to_string(path).unwrap_or_default();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => match serde_json::from_str::<Value>(&text()) {
            Ok(document) => shape::json(&document, Values::WithoutNumbers, mask),
            Err(_) => vec!["not JSON".to_owned()],
        },
        Some("yaml") => shape::yaml(&text(), mask),
        _ => vec![],
    }
}

fn kind(of: fs::FileType) -> &'static str {
    match of {
        of if of.is_dir() => "directory",
        of if of.is_symlink() => "link",
        of if of.is_socket() => "socket",
        of if of.is_fifo() => "pipe",
        of if of.is_file() => "file",
        _ => "device",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_is_its_files_with_modes_and_keys() {
        let dir = std::env::temp_dir().join(format!("compare-files-{}", std::process::id()));
        fs::create_dir_all(dir.join("pods")).unwrap();
        fs::write(dir.join("pods/0123456789ab.json"), r#"{"version": 1, "pod": {"name": "web"}}"#).unwrap();
        fs::set_permissions(dir.join("pods/0123456789ab.json"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(dir.join("pods"), fs::Permissions::from_mode(0o700)).unwrap();
        let lines = listed(&dir, &Mask::default()).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(
            lines,
            [
                "pods is a directory with mode 0700",
                "pods/ID.json is a file with mode 0600",
                "pods/ID.json .pod.name = \"web\"",
                "pods/ID.json .version = number",
            ]
        );
    }
}
