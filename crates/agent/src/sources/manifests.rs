//! Manifests that are read once: from files, directories and standard input.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use manifest::Reading;

use crate::sources::open::{Content, limited, open_regular, read_complete};

/// The name of standard input.
const STANDARD_INPUT: &str = "-";
/// Extensions of manifests in a directory.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Maximum time to wait for a writer that keeps a file open.
const PATIENCE: Duration = Duration::from_secs(5);

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
    read_each(names, |file| open_regular(file).and_then(limited))
}

/// As [`read_manifests`], for manifests that are applied: a file that a process has open for writing is waited for.
///
/// # Errors
/// If a file or directory cannot be read, or is still open for writing after some seconds.
pub fn read_complete_manifests(names: &[PathBuf]) -> Result<Reading, Unreadable> {
    read_each(names, |file| {
        let start = Instant::now();
        loop {
            match read_complete(file, None)? {
                Content::Whole(bytes) | Content::Doubtful(bytes) => return Ok(bytes),
                Content::Written if start.elapsed() < PATIENCE => std::thread::sleep(PATIENCE / 100),
                Content::Written => {
                    return Err(io::Error::other("another process has it open for writing"));
                }
            }
        }
    })
}

fn read_each(
    names: &[PathBuf],
    read_regular: impl Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Reading, Unreadable> {
    let mut reading = Reading::default();
    for name in names {
        if name == Path::new(STANDARD_INPUT) {
            let shown = "standard input";
            let bytes = limited(io::stdin().lock()).map_err(|cause| unreadable(shown, cause))?;
            reading.extend(manifest::read(shown, &bytes));
            continue;
        }
        for file in
            files(name, Names::ByEnding).map_err(|cause| unreadable(&name.display().to_string(), cause))?
        {
            let shown = file.display().to_string();
            // A pipe that is named, as by a shell's `<(...)`, is read to its end.
            let is_regular = file.is_file() || file != *name;
            let bytes =
                if is_regular { read_regular(&file) } else { std::fs::File::open(&file).and_then(limited) };
            reading.extend(manifest::read(&shown, &bytes.map_err(|cause| unreadable(&shown, cause))?));
        }
    }
    Ok(reading)
}

/// Whether this name can change: standard input and pipes are read once. A file that is missing may come back.
pub(super) fn is_watched(name: &Path) -> bool {
    match name.metadata() {
        Ok(found) => found.is_dir() || found.is_file(),
        Err(_) => {
            name != Path::new(STANDARD_INPUT) && !["/dev", "/proc"].iter().any(|dir| name.starts_with(dir))
        }
    }
}

fn unreadable(name: &str, cause: io::Error) -> Unreadable {
    Unreadable { name: name.to_owned(), cause }
}

/// Which files of a directory are manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// Those that end in `.yaml`, `.yml` or `.json`.
    ByEnding,
    /// All that are not hidden, as in the kubelet's directory of static pods.
    All,
}

impl Names {
    fn include(self, path: &Path) -> bool {
        match self {
            Self::ByEnding => path.extension().and_then(|e| e.to_str()).is_some_and(|e| ENDINGS.contains(&e)),
            Self::All => path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b".")),
        }
    }
}

/// The manifests of a name: the file itself, or those directly in the directory.
pub(super) fn files(name: &Path, names: Names) -> io::Result<Vec<PathBuf>> {
    // A directory that is being replaced is missing for a moment: that is an error here, and not a file.
    if !name.metadata()?.is_dir() {
        return Ok(vec![name.to_owned()]);
    }
    let is_manifest = |path: &PathBuf| names.include(path) && path.is_file();
    let entries = std::fs::read_dir(name)?.map(|entry| entry.map(|e| e.path()));
    let mut found = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    found.retain(is_manifest);
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The first half of a manifest is not what its author wants to run.
    #[test]
    fn a_file_that_is_being_written_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        let half = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\n";
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(half.as_bytes()).unwrap();
        let names = [path];
        assert_eq!(read_manifests(&names).unwrap().objects.len(), 1);
        let refused = read_complete_manifests(&names).unwrap_err();
        assert!(refused.to_string().ends_with("another process has it open for writing"), "{refused}");
        std::thread::scope(|scope| {
            let read = scope.spawn(|| read_complete_manifests(&names).unwrap());
            file.write_all(format!("---\n{half}").as_bytes()).unwrap();
            drop(file);
            assert_eq!(read.join().unwrap().objects.len(), 2);
        });
    }

    #[test]
    fn a_file_of_the_kernel_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc/kmsg", dir.path().join("a.yaml")).unwrap();
        let refused = read_complete_manifests(&[dir.path().to_owned()]).unwrap_err();
        assert!(refused.to_string().ends_with("it is a file of the kernel, not a regular file"), "{refused}");
    }
}
