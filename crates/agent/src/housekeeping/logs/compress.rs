//! Compression of rotated logs.

use std::fs::File;
use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::dir::LogDir;
use super::files::{LogFile, Part};

/// Number of bytes of one read.
const PIECE: usize = 64 << 10;

/// Compresses the rotated files of an instance that are not, and removes what an interrupted compression has left.
pub(super) fn compress_all(dir: &LogDir, attempt: u32) -> io::Result<()> {
    let all: Vec<LogFile> = dir.logs()?.into_iter().filter(|log| log.attempt == attempt).collect();
    for log in &all {
        let Part::Dated { at, is_compressed: false } = log.part else { continue };
        let compressed = LogFile { attempt, part: Part::Dated { at, is_compressed: true } };
        if !all.contains(&compressed) {
            compress(dir, *log, compressed)?;
        }
        dir.remove(*log)?;
    }
    Ok(())
}

/// Writes the compressed file beside the other one, and gives it its name when it is complete.
fn compress(dir: &LogDir, log: LogFile, compressed: LogFile) -> io::Result<()> {
    let Some(source) = dir.read(log)? else { return Ok(()) };
    // What is appended meanwhile, by a process that has it open, is none of the container's.
    let length = source.metadata()?.len();
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
        let names =
            ["0.log.20260301-123005", "0.log.20260301-123006", "0.log", "1.log.20260301-123005", "0.log.7"];
        names.iter().for_each(|name| fs::write(dir.path().join(name), name).unwrap());
        fs::write(dir.path().join("0.log.20260301-123006.gz"), "complete").unwrap();
        fs::write(dir.path().join("0.log.20260301-123005.gz.tmp"), "half").unwrap();
        let logs = LogDir::open(dir.path()).unwrap();
        compress_all(&logs, 0).unwrap();
        let mut found: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        let expected = [
            "0.log",
            "0.log.20260301-123005.gz",
            "0.log.20260301-123006.gz",
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

    /// A pod that could write to its log directory made root write to a file of the host.
    #[test]
    fn nothing_is_compressed_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        fs::write(dir.path().join("0.log.20260301-123005"), "text").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join("0.log.20260301-123005.gz.tmp")).unwrap();
        let logs = LogDir::open(dir.path()).unwrap();
        compress_all(&logs, 0).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
        assert!(dir.path().join("0.log.20260301-123005.gz").metadata().unwrap().is_file());
        std::os::unix::fs::symlink(&victim, dir.path().join("0.log.20260301-123009")).unwrap();
        compress_all(&logs, 0).unwrap();
        assert!(!dir.path().join("0.log.20260301-123009.gz").exists());
    }
}
