//! An initramfs archive ("newc"), as the kernel unpacks it. Archives may follow one another in one file.

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// An archive being written, with the parents of every entry before it.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    inode: u32,
    directories: BTreeSet<String>,
}

impl Archive {
    /// A regular file at a path from the root.
    pub(crate) fn file(&mut self, path: &str, permissions: u32, content: &[u8]) {
        self.parents(path);
        self.entry(path, REGULAR | permissions & 0o7777, content);
    }

    pub(crate) fn symlink(&mut self, path: &str, target: &str) {
        self.parents(path);
        self.entry(path, SYMLINK | 0o777, target.as_bytes());
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    /// Each directory once: the kernel would take a second entry too, but keeps the last one's mode.
    fn parents(&mut self, path: &str) {
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            let Some(directory) = path.get(..end) else { continue };
            if self.directories.insert(directory.to_owned()) {
                self.entry(directory, DIRECTORY | 0o755, &[]);
            }
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        let name = path.trim_start_matches('/');
        self.inode += 1;
        let (size, name_size) = (content.len(), name.len() + 1);
        let header = format!(
            "070701{:08x}{mode:08x}{:08x}{:08x}{:08x}{:08x}{size:08x}{:08x}{:08x}{:08x}{:08x}{name_size:08x}{:08x}",
            self.inode, 0, 0, 1, 0, 0, 0, 0, 0, 0
        );
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_once_and_before_their_files() {
        let mut archive = Archive::default();
        archive.file("/guest/bin/one", 0o755, b"1");
        archive.symlink("/guest/bin/two", "one");
        let text = String::from_utf8_lossy(&archive.finish()).into_owned();
        let at = |name: &str| text.find(name).unwrap();
        assert!(at("guest\0") < at("guest/bin\0") && at("guest/bin\0") < at("guest/bin/one\0"));
        assert_eq!(text.matches("guest/bin\0").count(), 1);
    }

    #[test]
    fn every_entry_starts_at_a_multiple_of_four() {
        let mut archive = Archive::default();
        archive.file("a", 0o644, b"12345");
        archive.file("bcd", 0o644, b"");
        let bytes = archive.finish();
        let starts: Vec<usize> =
            bytes.windows(6).enumerate().filter(|(_, w)| w == b"070701").map(|(at, _)| at).collect();
        assert_eq!(starts.len(), 3);
        assert!(starts.iter().all(|at| at % 4 == 0));
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn a_header_has_the_size_of_the_content_where_the_kernel_looks_for_it() {
        let mut archive = Archive::default();
        archive.file("a", 0o644, &[7; 300]);
        let bytes = archive.finish();
        assert_eq!(&bytes[54..62], b"0000012c");
    }
}
