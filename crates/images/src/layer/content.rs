//! File contents, written so that runs of zeros become holes.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use super::meter::fault;
use crate::fault::Fault;

const CHUNK: usize = 256 * 1024;
/// The block size of file systems.
const BLOCK: usize = 4096;
static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// Copies `size` bytes; runs of zeros become holes. `written` gets the number of bytes that are not zeros, as they are
/// written.
pub(crate) fn copy(
    from: &mut dyn Read,
    to: &File,
    size: u64,
    written: &mut dyn FnMut(u64) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut buffer = vec![0; CHUNK];
    let mut offset = 0;
    loop {
        let count = fill(from, &mut buffer)?;
        let chunk = buffer.get(..count).unwrap_or_default();
        // A callback also for a file that is one hole: the caller may cancel.
        written(0)?;
        for (start, run) in runs(chunk) {
            written(length(run))?;
            to.write_all_at(run, offset + start)
                .map_err(|error| Fault::Refused { what: "write it", why: error.to_string() })?;
        }
        offset += length(chunk);
        if count < CHUNK {
            break;
        }
    }
    if offset != size {
        return Err(Fault::Truncated { expected: size, found: offset });
    }
    to.set_len(size).map_err(|error| Fault::Refused { what: "give it its size", why: error.to_string() })
}

fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> Result<usize, Fault> {
    let mut count = 0;
    while let Some(rest) = buffer.get_mut(count..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(fault(&error)),
        }
    }
    Ok(count)
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn is_zero(block: &[u8]) -> bool {
    ZEROS.get(..block.len()) == Some(block)
}

/// The runs of blocks that are not all zero, with their offsets.
fn runs(chunk: &[u8]) -> Vec<(u64, &[u8])> {
    if is_zero(chunk) {
        return Vec::new();
    }
    let mut runs = Vec::new();
    let mut begin = None;
    let mut close = |begin: &mut Option<usize>, end: usize| {
        if let Some(start) = begin.take() {
            let at = u64::try_from(start).unwrap_or(u64::MAX);
            runs.push((at, chunk.get(start..end).unwrap_or_default()));
        }
    };
    for (n, block) in chunk.chunks(BLOCK).enumerate() {
        if is_zero(block) {
            close(&mut begin, n * BLOCK);
        } else if begin.is_none() {
            begin = Some(n * BLOCK);
        }
    }
    close(&mut begin, chunk.len());
    runs
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn copied(content: &[u8]) -> (Vec<u8>, u64, u64) {
        let mut file = tempfile::tempfile().unwrap();
        let mut written = 0;
        copy(&mut &content[..], &file, length(content), &mut |bytes| {
            written += bytes;
            Ok(())
        })
        .unwrap();
        let mut read = Vec::new();
        file.read_to_end(&mut read).unwrap();
        let blocks = file.metadata().unwrap().blocks();
        (read, written, blocks)
    }

    #[test]
    fn holes_read_as_zeros_and_take_no_room() {
        let mut content = vec![0; 3 * CHUNK + 17];
        content[CHUNK + 5 * BLOCK] = 1;
        let (read, written, blocks) = copied(&content);
        assert!(read == content);
        assert_eq!(written, length(&content[..BLOCK]));
        assert!(blocks <= 64, "{blocks} blocks for one that is not zero");
        assert!(copied(&[]).0.is_empty());
        assert_eq!(copied(b"short").0, b"short");
        assert_eq!(copied(&vec![7; CHUNK]).1, length(&ZEROS));
    }

    #[test]
    fn less_than_announced_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        let cut = copy(&mut &b"abc"[..], &file, 5, &mut |_| Ok(()));
        assert_eq!(cut, Err(Fault::Truncated { expected: 5, found: 3 }));
    }
}
