//! An image as its blobs, and the two ways of keeping them: an archive to import, and the store of a
//! registry (the layout that distribution's filesystem driver reads).

use std::fs;
use std::path::Path;

use ring::digest::{SHA256, digest};
use serde_json::json;

use super::layer::{Entry, Layer};
use crate::cache::hex;
use crate::{Error, Result};

/// What a container of the image runs, and as which user.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunAs {
    pub(crate) entrypoint: Vec<&'static str>,
    pub(crate) command: Vec<&'static str>,
    pub(crate) user: &'static str,
}

/// A blob with its digest.
#[derive(Debug)]
pub(crate) struct Blob {
    pub(crate) digest: String,
    pub(crate) bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        Self { digest: sha256(&bytes), bytes }
    }

    fn hex(&self) -> &str {
        self.digest.trim_start_matches("sha256:")
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(digest(&SHA256, bytes).as_ref()))
}

/// One image under one or more names.
#[derive(Debug)]
pub(crate) struct Image {
    names: Vec<String>,
    layer: Blob,
    config: Blob,
    manifest: Blob,
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

impl Image {
    pub(crate) fn new(names: &[&str], layer: Layer, run: &RunAs) -> Self {
        let created = "2026-01-01T00:00:00Z";
        let config = Blob::new(bytes(&json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "created": created,
            "config": {
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Entrypoint": run.entrypoint, "Cmd": run.command, "User": run.user, "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [sha256(&layer.plain)]},
            "history": [{"created": created, "created_by": "wardlet's testbed"}],
        })));
        let layer = Blob::new(layer.compressed);
        let manifest = Blob::new(bytes(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &layer)],
        })));
        Self { names: names.iter().map(|&name| name.to_owned()).collect(), layer, config, manifest }
    }

    fn blobs(&self) -> [&Blob; 3] {
        [&self.layer, &self.config, &self.manifest]
    }

    /// Writes an OCI archive for `ctr images import`, podman and our own importer.
    pub(crate) fn write_archive(&self, path: &Path) -> Result<()> {
        let manifests: Vec<_> = self.names.iter().map(|name| self.named(name)).collect();
        let index = bytes(&json!({"schemaVersion": 2, "manifests": manifests}));
        let mut files = vec![
            ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
            ("index.json".to_owned(), index),
        ];
        files.extend(self.blobs().map(|blob| (format!("blobs/sha256/{}", blob.hex()), blob.bytes.clone())));
        let write = || -> std::io::Result<()> {
            let mut builder = tar::Builder::new(fs::File::create(path)?);
            for (name, content) in &files {
                let mut header = tar::Header::new_gnu();
                header.set_mode(0o644);
                header.set_size(content.len() as u64);
                builder.append_data(&mut header, name, content.as_slice())?;
            }
            builder.finish()
        };
        write().map_err(Error::file("write", path))
    }

    fn named(&self, name: &str) -> serde_json::Value {
        let mut value = descriptor(MANIFEST, &self.manifest);
        if let Some(object) = value.as_object_mut() {
            let annotations = json!({
                "io.containerd.image.name": name,
                "org.opencontainers.image.ref.name": name.rsplit(':').next(),
            });
            object.insert("annotations".into(), annotations);
        }
        value
    }

    /// Puts the image into a registry's store, under its names without their hosts.
    pub(crate) fn write_store(&self, root: &Path) -> Result<()> {
        let root = root.join("docker/registry/v2");
        for blob in self.blobs() {
            let hex = blob.hex();
            let shard = hex.get(..2).unwrap_or_default();
            put(&root.join("blobs/sha256").join(shard).join(hex).join("data"), &blob.bytes)?;
        }
        for name in &self.names {
            let Some((repository, tag)) = path_and_tag(name) else { continue };
            let home = root.join("repositories").join(repository);
            for blob in [&self.layer, &self.config] {
                link(&home.join("_layers/sha256").join(blob.hex()), blob)?;
            }
            link(&home.join("_manifests/revisions/sha256").join(self.manifest.hex()), &self.manifest)?;
            let tags = home.join("_manifests/tags").join(tag);
            link(&tags.join("current"), &self.manifest)?;
            link(&tags.join("index/sha256").join(self.manifest.hex()), &self.manifest)?;
        }
        Ok(())
    }
}

impl Image {
    /// The files of the image for the registry in upstream's agnhost (`fake-registry-server`), which serves those below
    /// /var/registry.
    pub(crate) fn for_agnhost(&self, repository: &str, tag: &str) -> Vec<Entry> {
        let home = format!("var/registry/{repository}");
        let place = |kind: &str, blob: &Blob| {
            let shard = blob.hex().get(..2).unwrap_or_default();
            format!("{home}/{kind}/sha256/{shard}/{}/data", blob.hex())
        };
        let file = |path, bytes: &[u8]| Entry::File { path, mode: 0o644, bytes: bytes.to_vec() };
        let mut entries = vec![
            file(format!("{home}/manifests/{tag}"), self.manifest.digest.as_bytes()),
            file(place("manifests", &self.manifest), &self.manifest.bytes),
        ];
        entries.extend([&self.layer, &self.config].map(|blob| file(place("blobs", blob), &blob.bytes)));
        entries
    }
}

/// `host/path:tag` without its host.
fn path_and_tag(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')?.1.rsplit_once(':')
}

fn link(directory: &Path, blob: &Blob) -> Result<()> {
    put(&directory.join("link"), blob.digest.as_bytes())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(Error::file("make", parent))?;
    fs::write(path, bytes).map_err(Error::file("write", path))
}

fn bytes(value: &serde_json::Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn descriptor(kind: &str, blob: &Blob) -> serde_json::Value {
    json!({"mediaType": kind, "digest": blob.digest, "size": blob.bytes.len()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_goes_into_the_store_without_its_host() {
        assert_eq!(path_and_tag("example.test/a/b:1.0-2"), Some(("a/b", "1.0-2")));
        assert_eq!(path_and_tag("nohost:1"), None);
    }

    #[test]
    fn the_registry_in_agnhost_finds_all_blobs_by_their_digests() {
        let layer = super::super::layer::layer(&[]).expect("an empty layer");
        let image = Image::new(&["example.test/a:1"], layer, &RunAs::default());
        let files: std::collections::BTreeMap<String, Vec<u8>> = image
            .for_agnhost("pause", "testing")
            .into_iter()
            .filter_map(|entry| match entry {
                Entry::File { path, bytes, .. } => Some((path, bytes)),
                _ => None,
            })
            .collect();
        let read = |kind: &str, digest: &str| {
            let hex = digest.trim_start_matches("sha256:");
            &files[&format!("var/registry/pause/{kind}/sha256/{}/{hex}/data", &hex[..2])]
        };
        let digest =
            String::from_utf8(files["var/registry/pause/manifests/testing"].clone()).expect("a digest");
        let manifest: serde_json::Value =
            serde_json::from_slice(read("manifests", &digest)).expect("a manifest");
        for blob in [&manifest["config"], &manifest["layers"][0]] {
            let digest = blob["digest"].as_str().expect("a digest");
            assert_eq!(sha256(read("blobs", digest)), digest);
        }
    }

    #[test]
    fn the_store_leads_from_the_tag_to_the_manifest() {
        let dir = tempfile::tempdir().expect("a directory");
        let layer = super::super::layer::layer(&[]).expect("an empty layer");
        let image = Image::new(&["example.test/a:1"], layer, &RunAs::default());
        image.write_store(dir.path()).expect("a store");
        let root = dir.path().join("docker/registry/v2");
        let link =
            fs::read_to_string(root.join("repositories/a/_manifests/tags/1/current/link")).expect("a link");
        let hex = link.trim_start_matches("sha256:");
        let blob =
            fs::read(root.join("blobs/sha256").join(&hex[..2]).join(hex).join("data")).expect("a blob");
        assert_eq!(sha256(&blob), link);
    }
}
