//! A root filesystem as a layer: a compressed tar whose bytes depend on nothing but what is in it.

use std::io::Write;
use std::path::Path;

use flate2::{Compression, GzBuilder};

use crate::{Error, Result};

/// One entry, owned by root.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    Directory { path: String, mode: u32 },
    File { path: String, mode: u32, bytes: Vec<u8> },
    Link { path: String, target: String },
    HardLink { path: String, target: String },
}

/// A layer and its two digests' sources: the registry names the compressed bytes, the config the plain ones.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) plain: Vec<u8>,
    pub(crate) compressed: Vec<u8>,
}

pub(crate) fn layer(entries: &[Entry]) -> Result<Layer> {
    let failed = |error| Error::file("write the layer of", Path::new("an image"))(error);
    let plain = pack(entries).map_err(failed)?;
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::fast());
    encoder.write_all(&plain).map_err(failed)?;
    Ok(Layer { compressed: encoder.finish().map_err(failed)?, plain })
}

fn pack(entries: &[Entry]) -> std::io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(0);
        match entry {
            Entry::Directory { path, mode } => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_mode(*mode);
                builder.append_data(&mut header, format!("{path}/"), std::io::empty())?;
            }
            Entry::File { path, mode, bytes } => {
                header.set_mode(*mode);
                header.set_size(bytes.len() as u64);
                builder.append_data(&mut header, path, bytes.as_slice())?;
            }
            Entry::HardLink { path, target } => {
                header.set_entry_type(tar::EntryType::Link);
                header.set_mode(0o755);
                builder.append_link(&mut header, path, target)?;
            }
            Entry::Link { path, target } => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_mode(0o777);
                builder.append_link(&mut header, path, target)?;
            }
        }
    }
    builder.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_entries_give_the_same_bytes() {
        let entries = [
            Entry::Directory { path: "bin".into(), mode: 0o755 },
            Entry::File { path: "bin/a".into(), mode: 0o755, bytes: b"x".to_vec() },
            Entry::Link { path: "bin/b".into(), target: "/bin/a".into() },
        ];
        let (one, two) = (layer(&entries).expect("a layer"), layer(&entries).expect("a layer"));
        assert_eq!(one.compressed, two.compressed);
        let mut archive = tar::Archive::new(one.plain.as_slice());
        let names: Vec<_> = archive
            .entries()
            .expect("entries")
            .map(|entry| entry.expect("an entry").path().expect("a path").into_owned())
            .collect();
        assert_eq!(names, [Path::new("bin/"), Path::new("bin/a"), Path::new("bin/b")]);
    }
}
