#![no_main]
//! A layer: any bytes are read or refused, within their limits. What is handed on stays inside the image,
//! is owned by somebody who can exist, and is never a device or an attribute that could do harm.

use std::io::Read;

use images::{AbsoluteNames, Entry, Error, Fault, Limits, Sink, What, read_entries, uncompressed};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits {
    layer_bytes: 1 << 20,
    stream_bytes: 1 << 22,
    ratio: 100,
    ratio_from: 1 << 16,
    entries: 1000,
    layers: 10,
    absolute_names: AbsoluteNames::Refused,
};

#[derive(Default)]
struct Checked {
    entries: u64,
    content: u64,
}

impl Sink for Checked {
    fn entry(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), Fault> {
        self.entries += 1;
        let inside = |path: &images::EntryPath| {
            path.names().iter().all(|name| {
                let bytes = name.as_encoded_bytes();
                !matches!(bytes, b"" | b"." | b"..") && !bytes.iter().any(|b| matches!(b, b'/' | 0))
            })
        };
        assert!(inside(&entry.path), "{entry:?}");
        assert!(entry.owner.uid < u32::MAX && entry.owner.gid < u32::MAX, "{entry:?}");
        assert_eq!(entry.mode & !0o7777, 0);
        assert!(entry.xattrs.iter().all(|(name, _)| !name.contains("overlay.")), "{entry:?}");
        match &entry.what {
            What::HardLink(target) => assert!(inside(target), "{entry:?}"),
            What::Device(major, _) => assert!(matches!(major, 1 | 5), "{entry:?}"),
            What::Symlink(target) => assert!(!target.contains(&0) && !target.is_empty()),
            What::File(_) => {
                let mut taken = content.take(1 << 16);
                self.content += std::io::copy(&mut taken, &mut std::io::sink()).unwrap_or(0);
            }
            _ => {}
        }
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(stream) = uncompressed(bytes) else { return };
    let mut sink = Checked::default();
    match read_entries(stream, "fuzz", &LIMITS, &mut sink) {
        Ok(count) => assert!(sink.entries <= count && count <= LIMITS.entries),
        Err(Error::Entry { .. } | Error::Layer { .. }) => {}
        Err(other) => panic!("{other}"),
    }
});
