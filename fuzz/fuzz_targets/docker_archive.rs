#![no_main]
//! The manifest.json of a docker archive, beside a configuration and a layer: any bytes are understood or refused, what is
//! understood names an image, and what is in the store can be listed and removed.

use std::fs;
use std::sync::LazyLock;

use images::{Images, Limits, Quiet};
use libfuzzer_sys::fuzz_target;

struct Place {
    dir: tempfile::TempDir,
    images: Images,
}

static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("archive");
    fs::create_dir(&archive).unwrap();
    fs::write(archive.join("config.json"), r#"{"rootfs":{"type":"layers","diff_ids":[]}}"#).unwrap();
    fs::write(archive.join("layer.tar"), [0; 1024]).unwrap();
    let images = Images::open(&dir.path().join("store"), Limits::default()).unwrap();
    Place { dir, images }
});

fuzz_target!(|bytes: &[u8]| {
    let Place { dir, images } = &*PLACE;
    let archive = dir.path().join("archive");
    fs::write(archive.join("manifest.json"), bytes).unwrap();
    let imported = images.import(&archive, None, &Quiet);
    let listed = images.list().unwrap();
    assert!(listed.damaged.is_empty());
    // Of several, those before the one that is refused are kept.
    assert!(!imported.is_ok_and(|all| all.is_empty()));
    listed.images.iter().for_each(|image| drop(images.remove(image.id.as_str()).unwrap()));
});
