//! Manifests that are read once: from files, directories and standard input.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use manifest::{MAX_BYTES, Reading};

/// The name of standard input.
const STANDARD_INPUT: &str = "-";
/// Extensions of manifests in a directory.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// A file or directory that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {name}: {cause}")]
pub struct Unreadable {
    /// The file or directory, or "standard input".
    pub name: String,
    /// The operating system's error.
    pub cause: io::Error,
}

/// Reads everything that the named files hold: `-` is standard input, and a directory stands for the manifests directly
/// in it. What is wrong inside a file is a finding of the result.
///
/// # Errors
/// If a file or directory cannot be read.
pub fn read_manifests(names: &[PathBuf]) -> Result<Reading, Unreadable> {
    let mut reading = Reading::default();
    for name in names {
        if name == Path::new(STANDARD_INPUT) {
            let shown = "standard input";
            let bytes = limited(io::stdin().lock()).map_err(|cause| unreadable(shown, cause))?;
            reading.extend(manifest::read(shown, &bytes));
            continue;
        }
        for file in files(name).map_err(|cause| unreadable(&name.display().to_string(), cause))? {
            let shown = file.display().to_string();
            let bytes =
                std::fs::File::open(&file).and_then(limited).map_err(|cause| unreadable(&shown, cause))?;
            reading.extend(manifest::read(&shown, &bytes));
        }
    }
    Ok(reading)
}

fn unreadable(name: &str, cause: io::Error) -> Unreadable {
    Unreadable { name: name.to_owned(), cause }
}

/// One byte more than is allowed is enough to report the size.
pub(super) fn limited(from: impl Read) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    from.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The manifests of a name: the file itself, or those directly in the directory.
pub(super) fn files(name: &Path) -> io::Result<Vec<PathBuf>> {
    // A directory that is being replaced is missing for a moment: that is an error here, and not a file.
    if !name.metadata()?.is_dir() {
        return Ok(vec![name.to_owned()]);
    }
    let is_manifest = |path: &PathBuf| {
        let ending = path.extension().and_then(|e| e.to_str());
        ending.is_some_and(|e| ENDINGS.contains(&e)) && path.is_file()
    };
    let entries = std::fs::read_dir(name)?.map(|entry| entry.map(|e| e.path()));
    let mut found = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    found.retain(is_manifest);
    found.sort();
    Ok(found)
}
