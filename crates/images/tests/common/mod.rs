//! Images made on the spot, good and bad, and pictures of a store to compare.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "each test binary uses what it needs, and a test may panic"
)]

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use images::{Digest, Image, Images, Limits, Quiet, Reference};
use serde_json::{Value, json};
use tar::{EntryType, Header};

/// How bytes are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packed {
    Plain,
    Gzip,
    Zstd,
}

pub fn pack(bytes: &[u8], how: Packed) -> Vec<u8> {
    match how {
        Packed::Plain => bytes.to_vec(),
        Packed::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Packed::Zstd => zstd::stream::encode_all(bytes, 1).unwrap(),
    }
}

/// A layer's archive, entry by entry. Names and types are written as given, however wrong.
pub struct Layer(tar::Builder<Vec<u8>>);

/// What an entry's header says.
#[derive(Debug, Clone, Copy)]
pub struct Meta {
    pub kind: EntryType,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub size: u64,
    pub device: (u32, u32),
}

impl Meta {
    pub fn of(kind: EntryType, mode: u32) -> Self {
        Self { kind, mode, uid: 0, gid: 0, size: 0, device: (0, 0) }
    }

    pub fn owned(self, uid: u64, gid: u64) -> Self {
        Self { uid, gid, ..self }
    }
}

impl Layer {
    pub fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    pub fn raw(mut self, name: &str, link: &str, meta: Meta, content: &[u8]) -> Self {
        self.0.append(&header(name, link, meta), content).unwrap();
        self
    }

    pub fn dir(self, name: &str, mode: u32) -> Self {
        self.raw(name, "", Meta::of(EntryType::Directory, mode), b"")
    }

    pub fn file(self, name: &str, content: &str) -> Self {
        self.owned_file(name, content, (0, 0))
    }

    pub fn owned_file(self, name: &str, content: &str, owner: (u64, u64)) -> Self {
        let size = content.len() as u64;
        let meta = Meta { size, ..Meta::of(EntryType::Regular, 0o644).owned(owner.0, owner.1) };
        self.raw(name, "", meta, content.as_bytes())
    }

    pub fn symlink(self, name: &str, to: &str) -> Self {
        self.raw(name, to, Meta::of(EntryType::Symlink, 0o777), b"")
    }

    pub fn hard_link(self, name: &str, to: &str) -> Self {
        self.raw(name, to, Meta::of(EntryType::Link, 0o644), b"")
    }

    pub fn device(self, name: &str, kind: EntryType, numbers: (u32, u32)) -> Self {
        self.raw(name, "", Meta { device: numbers, ..Meta::of(kind, 0o666) }, b"")
    }

    /// For the next entry.
    pub fn pax(mut self, records: &[(&str, &[u8])]) -> Self {
        self.0.append_pax_extensions(records.iter().copied()).unwrap();
        self
    }

    pub fn finish(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

fn header(name: &str, link: &str, meta: Meta) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(meta.kind);
    header.set_mode(meta.mode);
    header.set_uid(meta.uid);
    header.set_gid(meta.gid);
    header.set_size(meta.size);
    header.set_mtime(1_700_000_000);
    header.set_device_major(meta.device.0).unwrap();
    header.set_device_minor(meta.device.1).unwrap();
    let gnu = header.as_gnu_mut().unwrap();
    // Not by the setters: they would refuse what hostile archives hold.
    gnu.name[..name.len()].copy_from_slice(name.as_bytes());
    gnu.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_cksum();
    header
}

/// An image to be written in any form.
pub struct Made {
    pub name: String,
    pub layers: Vec<Vec<u8>>,
    pub packed: Packed,
    pub config: Value,
}

pub fn image(name: &str, layers: Vec<Vec<u8>>) -> Made {
    Made { name: name.to_owned(), layers, packed: Packed::Gzip, config: json!({"Cmd": ["/bin/true"]}) }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

impl Made {
    pub fn packed(mut self, how: Packed) -> Self {
        self.packed = how;
        self
    }

    pub fn config_bytes(&self) -> Vec<u8> {
        let diff_ids: Vec<Digest> = self.layers.iter().map(|layer| Digest::of(layer)).collect();
        let config = json!({
            "architecture": architecture(), "os": "linux", "created": "2026-01-02T03:04:05Z",
            "config": self.config, "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        serde_json::to_vec(&config).unwrap()
    }

    pub fn id(&self) -> Digest {
        Digest::of(&self.config_bytes())
    }

    /// Name and content of every file of an OCI layout.
    pub fn layout(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut blob = |kind: &str, bytes: Vec<u8>| {
            let digest = Digest::of(&bytes);
            let descriptor = json!({"mediaType": kind, "digest": digest, "size": bytes.len()});
            files.insert(format!("blobs/sha256/{}", digest.hex()), bytes);
            descriptor
        };
        let config = blob("application/vnd.oci.image.config.v1+json", self.config_bytes());
        let layers: Vec<Value> = self
            .layers
            .iter()
            .map(|layer| blob("application/vnd.oci.image.layer.v1.tar", pack(layer, self.packed)))
            .collect();
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers});
        let mut top = blob(kind, serde_json::to_vec(&manifest).unwrap());
        top["annotations"] = json!({"io.containerd.image.name": self.name});
        let index = json!({"schemaVersion": 2, "manifests": [top]});
        files.insert("index.json".to_owned(), serde_json::to_vec(&index).unwrap());
        files.insert("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec());
        files
    }

    /// Name and content of every file of a docker archive.
    pub fn docker(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let config = format!("{}.json", self.id().hex());
        files.insert(config.clone(), self.config_bytes());
        let mut names = Vec::new();
        for (n, layer) in self.layers.iter().enumerate() {
            let name = format!("{n}/layer.tar");
            files.insert(name.clone(), pack(layer, self.packed));
            names.push(name);
        }
        let manifest = json!([{"Config": config, "RepoTags": [self.name], "Layers": names}]);
        files.insert("manifest.json".to_owned(), serde_json::to_vec(&manifest).unwrap());
        files
    }

    pub fn write_layout(&self, dir: &Path) -> PathBuf {
        for (name, content) in self.layout() {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        dir.to_owned()
    }

    pub fn write_docker(&self, path: &Path) -> PathBuf {
        std::fs::write(path, archive(&self.docker())).unwrap();
        path.to_owned()
    }
}

pub fn archive(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut layer = Layer::new();
    for (name, content) in files {
        let meta = Meta { size: content.len() as u64, ..Meta::of(EntryType::Regular, 0o644) };
        layer = layer.raw(name, "", meta, content);
    }
    layer.finish()
}

/// A store in a directory of its own.
pub struct Fixture {
    pub dir: tempfile::TempDir,
    pub images: Images,
}

impl Fixture {
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Self {
        // Not on tmpfs: extended attributes and file systems as nodes have them.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let images = Images::open(&dir.path().join("images"), limits).unwrap();
        Self { dir, images }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn import(&self, made: &Made) -> images::Result<Image> {
        let path = made.write_docker(&self.path("image.tar"));
        Ok(self.import_file(&path)?.remove(0))
    }

    pub fn import_file(&self, path: &Path) -> images::Result<Vec<Image>> {
        self.images.import(path, None::<&Reference>, &Quiet)
    }

    /// The only layer's files.
    pub fn files(&self, image: &Image) -> PathBuf {
        self.images.layers(image).unwrap()[0].clone()
    }

    /// Everything in the store.
    pub fn tree(&self) -> BTreeMap<String, String> {
        tree(self.images.root())
    }
}

/// Every path below `root` but locks, which say nothing, with everything that can be seen of it.
pub fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.parent().is_some_and(|parent| parent.ends_with("locks")) {
                continue;
            }
            let meta = path.symlink_metadata().unwrap();
            let kind = meta.file_type();
            let what = if kind.is_dir() {
                folders.push(path.clone());
                "directory".to_owned()
            } else if kind.is_symlink() {
                format!("link to {}", std::fs::read_link(&path).unwrap().display())
            } else if kind.is_char_device() {
                format!("device {}", meta.rdev())
            } else if kind.is_file() && meta.len() < 10_000_000 {
                format!("file {}", Digest::of(&std::fs::read(&path).unwrap()))
            } else {
                format!("{kind:?} of {}", meta.len())
            };
            let name = path.strip_prefix(root).unwrap().display().to_string();
            found.insert(name, format!("{what} {:o} {}:{}", meta.mode(), meta.uid(), meta.gid()));
        }
    }
    found
}
