//! Compression of rotated logs.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use tracing::warn;

use super::dir::LogDir;
use super::files::{LogFile, Part};
use super::rotation::LogSize;

/// Number of bytes of one read.
const PIECE: usize = 64 << 10;
/// A rotated file can be so many times as long as the size at which it was to be rotated: it grows until it is measured.
const TIMES: u64 = 8;
/// No log is too long with fewer bytes.
const SHORT: u64 = 16 << 20;

/// How long a rotated file may be to be compressed.
pub(super) fn longest(max_size: LogSize) -> u64 {
    max_size.bytes().saturating_mul(TIMES).max(SHORT)
}

/// Compresses the rotated files of an instance that are not, but for the newest, and removes what an interrupted compression has
/// left. A file of more than `longest` bytes is removed instead: a pod that can write to its log directory can make one that has
/// no end.
pub(super) fn compress_rotated(path: &Path, attempt: u32, longest: u64) -> io::Result<()> {
    let dir = LogDir::open(path)?;
    dir.remove_temporaries(attempt)?;
    let all: Vec<LogFile> = dir.logs()?.into_iter().filter(|log| log.attempt == attempt).collect();
    let dated = |log: &LogFile| match log.part {
        Part::Dated { at, .. } => Some(at),
        Part::Rotated(_) | Part::Current => None,
    };
    let newest = all.iter().rev().find_map(dated);
    for log in &all {
        let Part::Dated { at, is_compressed: false } = log.part else { continue };
        if newest == Some(at) {
            continue;
        }
        let compressed = LogFile { attempt, part: Part::Dated { at, is_compressed: true } };
        if !all.contains(&compressed) {
            compress(&dir, *log, compressed, longest)?;
        }
        dir.remove(*log)?;
    }
    Ok(())
}

/// Writes the compressed file beside the other one, and gives it its name when it is complete.
fn compress(dir: &LogDir, log: LogFile, compressed: LogFile, longest: u64) -> io::Result<()> {
    let Some(source) = dir.read(log)? else { return Ok(()) };
    // What is appended meanwhile, by a process that has it open, is none of the container's.
    let length = source.metadata()?.len();
    if length > longest {
        warn!("the rotated log {} of {length} bytes is removed: it is too long to be compressed", log.name());
        return Ok(());
    }
    let target = dir.create_temporary(compressed)?;
    match copy(source.take(length), target).and_then(|()| dir.rename_temporary(compressed)) {
        Ok(()) => Ok(()),
        Err(error) => {
            dir.remove_temporary(compressed)?;
            Err(error)
        }
    }
}

fn copy(mut source: io::Take<File>, target: File) -> io::Result<()> {
    let mut encoder = GzEncoder::new(target, Compression::default());
    let mut piece = vec![0; PIECE];
    loop {
        match source.read(&mut piece)? {
            0 => break,
            read => encoder.write_all(piece.get(..read).unwrap_or_default())?,
        }
    }
    encoder.finish()?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn rotated_files_are_compressed_once_and_what_is_left_of_a_killed_process_goes() {
        let dir = tempfile::tempdir().unwrap();
        let names = [
            "0.log.20260301-123005",
            "0.log.20260301-123006",
            "0.log.20260301-123007",
            "0.log",
            "1.log.20260301-123005",
            "0.log.7",
        ];
        names.iter().for_each(|name| fs::write(dir.path().join(name), name).unwrap());
        fs::write(dir.path().join("0.log.20260301-123006.gz"), "complete").unwrap();
        // The second was removed as the oldest while it was compressed.
        for half in ["0.log.20260301-123005.gz.tmp", "0.log.20260228-123005.gz.tmp"] {
            fs::write(dir.path().join(half), "half").unwrap();
        }
        compress_rotated(dir.path(), 0, 100).unwrap();
        let mut found: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        let expected = [
            "0.log",
            "0.log.20260301-123005.gz",
            "0.log.20260301-123006.gz",
            "0.log.20260301-123007",
            "0.log.7",
            "1.log.20260301-123005",
        ];
        assert_eq!(found, expected);
        let mut text = String::new();
        let file = fs::File::open(dir.path().join("0.log.20260301-123005.gz")).unwrap();
        GzDecoder::new(file).read_to_string(&mut text).unwrap();
        assert_eq!(text, "0.log.20260301-123005");
        assert_eq!(fs::read(dir.path().join("0.log.20260301-123006.gz")).unwrap(), b"complete");
    }

    /// A pod that could write to its log directory kept the agent compressing a file without data, of any length.
    #[test]
    fn what_is_too_long_is_removed_and_not_compressed() {
        let dir = tempfile::tempdir().unwrap();
        let [long, short, newest] =
            ["0.log.20260301-123005", "0.log.20260301-123006", "0.log.20260301-123007"]
                .map(|name| dir.path().join(name));
        fs::File::create(&long).unwrap().set_len(1 << 40).unwrap();
        fs::write(&short, "text").unwrap();
        fs::File::create(&newest).unwrap().set_len(1 << 40).unwrap();
        let longest = longest("100Ki".parse().unwrap());
        assert_eq!(longest, 16 << 20);
        compress_rotated(dir.path(), 0, longest).unwrap();
        assert!(!long.exists() && !dir.path().join("0.log.20260301-123005.gz").exists());
        assert!(newest.exists() && dir.path().join("0.log.20260301-123006.gz").exists());
        assert_eq!(super::longest("10Mi".parse().unwrap()), 80 << 20);
        assert_eq!(super::longest(LogSize::UNLIMITED), u64::MAX);
    }

    /// A pod that could write to its log directory made root write to a file of the host.
    #[test]
    fn nothing_is_compressed_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        fs::write(dir.path().join("0.log.20260301-123005"), "text").unwrap();
        fs::write(dir.path().join("0.log.20260301-123010"), "newest").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join("0.log.20260301-123005.gz.tmp")).unwrap();
        compress_rotated(dir.path(), 0, 100).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
        assert!(dir.path().join("0.log.20260301-123005.gz").metadata().unwrap().is_file());
        std::os::unix::fs::symlink(&victim, dir.path().join("0.log.20260301-123009")).unwrap();
        compress_rotated(dir.path(), 0, 100).unwrap();
        assert!(!dir.path().join("0.log.20260301-123009.gz").exists());
    }
}
