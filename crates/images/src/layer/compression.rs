use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

const BUFFER: usize = 128 * 1024;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// How an archive or a layer is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// By the first bytes: media types and file names are often wrong.
    pub(crate) fn of(start: &[u8]) -> Self {
        if start.starts_with(GZIP) {
            Self::Gzip
        } else if start.starts_with(ZSTD) || is_skippable_frame(start) {
            Self::Zstd
        } else {
            Self::None
        }
    }
}

/// zstd streams may begin with a frame that holds no data.
fn is_skippable_frame(start: &[u8]) -> bool {
    matches!(start, [first, 0x2a, 0x4d, 0x18, ..] if first & 0xf0 == 0x50)
}

/// The decompressed content of `reader`: plain, gzip or zstd.
///
/// # Errors
/// If its first bytes cannot be read.
pub fn uncompressed<'a>(reader: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    let compression = Compression::of(reader.fill_buf()?);
    Ok(match compression {
        Compression::None => Box::new(reader),
        Compression::Gzip => Box::new(MultiGzDecoder::new(reader)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(reader)?),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        uncompressed(bytes).unwrap().read_to_end(&mut out).unwrap();
        out
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn compression_is_told_by_the_first_bytes() {
        let zstd = |bytes: &[u8]| zstd::stream::encode_all(bytes, 1).unwrap();
        assert_eq!(read(b"plain"), b"plain");
        assert_eq!(read(b""), b"");
        assert_eq!(read(&gzip(b"text")), b"text");
        assert_eq!(read(&zstd(b"text")), b"text");
    }

    #[test]
    fn members_and_frames_follow_each_other() {
        assert_eq!(read(&[gzip(b"one "), gzip(b"two")].concat()), b"one two");
        let frame = |bytes: &[u8]| zstd::stream::encode_all(bytes, 1).unwrap();
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9];
        assert_eq!(read(&[&skipped[..], &frame(b"one "), &skipped, &frame(b"two")].concat()), b"one two");
    }
}
