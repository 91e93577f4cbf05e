//! Hostile images: refused with the entry's name, nothing written outside, the store as it was.

use crate::common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

use common::{Fixture, Layer, Made, Meta, Packed, archive, image, pack, tree};
use images::{AbsoluteNames, Digest, Limits};
use serde_json::json;
use tar::EntryType;

/// Imports a layer that must be refused, over a good one and beside a good image, and says how.
#[track_caller]
fn refused(limits: Limits, layer: Vec<u8>) -> String {
    let fixture = Fixture::with(limits);
    // What an escape would hit: beside the layer, beside the store, and where absolute names lead.
    fs::write(fixture.path("canary"), "alive").unwrap();
    let good = Layer::new().file("good", "good").symlink("etc", "/etc").finish();
    fixture.import(&image("localhost/good:1", vec![good])).unwrap();
    let before = tree(fixture.dir.path());
    let below = Layer::new().dir("below", 0o755).symlink("out", "/var").finish();
    let path = image("localhost/bad:1", vec![below, layer]).write_docker(&fixture.path("bad.tar"));
    let error = fixture.import_file(&path).expect_err("hostile, and taken");
    fs::remove_file(path).unwrap();
    let after = tree(fixture.dir.path());
    assert_eq!(after, before, "{error}");
    assert!(fixture.images.find("localhost/good:1").is_ok());
    error.to_string()
}

#[track_caller]
fn refused_with(layer: Layer, entry: &str, why: &str) {
    let error = refused(Limits::default(), layer.finish());
    assert!(error.contains(&format!("entry {entry:?}")) && error.contains(why), "{error}");
}

#[test]
fn a_name_that_is_absolute_or_climbs() {
    refused_with(Layer::new().file("/etc/wardlet-was-here", ""), "/etc/wardlet-was-here", "absolute");
    refused_with(Layer::new().file("../canary", "dead"), "../canary", "`..`");
    refused_with(Layer::new().file("a/../../canary", "dead"), "a/../../canary", "`..`");
    refused_with(Layer::new().dir("..", 0o777), "..", "`..`");
    assert!(!std::path::Path::new("/etc/wardlet-was-here").exists());
}

#[test]
fn an_absolute_name_is_inside_the_image_where_that_is_configured() {
    let fixture = Fixture::with(Limits { absolute_names: AbsoluteNames::InImage, ..Limits::default() });
    let layer = Layer::new().file("/ko-app/server", "go").hard_link("/again", "/ko-app/server").finish();
    let found = fixture.import(&image("localhost/ko:1", vec![layer])).unwrap();
    assert_eq!(fs::read_to_string(fixture.files(&found).join("again")).unwrap(), "go");
}

#[test]
fn a_symbolic_link_that_leads_out() {
    let through = |link: &str| Layer::new().symlink("link", link).file("link/wardlet-was-here", "");
    for link in ["/", "/etc", "/proc/self/root", "..", "../../..", "below/../.."] {
        refused_with(through(link), "link/wardlet-was-here", "out of the image");
    }
    // In two steps, and through a link of the layer below.
    let chained =
        Layer::new().symlink("a", "b/..").symlink("b", "below").symlink("c", "a/..").file("c/x", "");
    refused_with(chained, "c/x", "out of the image");
    refused_with(Layer::new().file("out/wardlet-was-here", ""), "out/wardlet-was-here", "out of the image");
    refused_with(Layer::new().symlink("l", "l").file("l/x", ""), "l/x", "too many symbolic links");
    assert!(!std::path::Path::new("/etc/wardlet-was-here").exists());
}

/// A link that stays inside is followed, as a container would.
#[test]
fn a_symbolic_link_inside_is_followed() {
    let fixture = Fixture::new();
    let layer = Layer::new()
        .dir("usr/lib", 0o755)
        .symlink("lib", "usr/lib")
        .symlink("usr/up", "../lib")
        .file("usr/up/x", "x")
        .finish();
    let found = fixture.import(&image("localhost/in:1", vec![layer])).unwrap();
    assert_eq!(fs::read_to_string(fixture.files(&found).join("usr/lib/x")).unwrap(), "x");
}

/// A file that replaces a link must not be written through it.
#[test]
fn a_file_replaces_a_link_and_does_not_follow_it() {
    let fixture = Fixture::new();
    let canary = fixture.path("canary");
    fs::write(&canary, "alive").unwrap();
    let layer = Layer::new()
        .symlink("f", canary.to_str().unwrap())
        .file("f", "replaced")
        .symlink("d", fixture.dir.path().to_str().unwrap())
        .dir("d", 0o700)
        .file("d/canary", "inside")
        // What went through the link before it was replaced does not lead there afterwards.
        .dir("real", 0o700)
        .symlink("way", "real")
        .file("way/one", "1")
        .dir("way", 0o700)
        .file("way/two", "2")
        .file("one", "1")
        .hard_link("two", "one")
        .file("two", "2")
        .finish();
    let found = fixture.import(&image("localhost/replaced:1", vec![layer])).unwrap();
    assert_eq!(fs::read_to_string(canary).unwrap(), "alive");
    let files = fixture.files(&found);
    assert_eq!(fs::read_to_string(files.join("f")).unwrap(), "replaced");
    assert_eq!(fs::read_to_string(files.join("d/canary")).unwrap(), "inside");
    assert!(
        files.join("real/one").exists() && files.join("way/two").exists() && !files.join("real/two").exists()
    );
    assert_eq!(fs::read_to_string(files.join("one")).unwrap(), "1", "not written through the other name");
}

#[test]
fn a_hard_link_to_what_is_not_in_the_layer() {
    refused_with(Layer::new().hard_link("shadow", "/etc/shadow"), "shadow", "absolute");
    refused_with(Layer::new().hard_link("up", "../canary"), "up", "`..`");
    refused_with(
        Layer::new().symlink("l", "/etc").hard_link("shadow", "l/shadow"),
        "shadow",
        "out of the image",
    );
    refused_with(
        Layer::new().hard_link("early", "late").file("late", ""),
        "early",
        "not in this layer so far",
    );
    refused_with(Layer::new().hard_link("x", "gone/x"), "x", "not in this layer so far");
    refused_with(Layer::new().dir("d", 0o755).hard_link("e", "d"), "e", "is a directory");
    refused_with(Layer::new().hard_link("self", "self"), "self", "is itself");
    refused_with(Layer::new().hard_link("root", "./"), "root", "is the image itself");
    // Another name of a whiteout would be a whiteout that nobody sees coming.
    refused_with(Layer::new().file(".wh.w", "").hard_link("v", "w"), "v", "is a whiteout");
}

/// A hard link to a symbolic link is a second link, not what it leads to.
#[test]
fn a_hard_link_does_not_follow_a_symbolic_link() {
    let fixture = Fixture::new();
    let layer = Layer::new().symlink("l", "/etc/passwd").hard_link("h", "l").finish();
    let found = fixture.import(&image("localhost/hard:1", vec![layer])).unwrap();
    assert_eq!(fs::read_link(fixture.files(&found).join("h")).unwrap().to_str(), Some("/etc/passwd"));
}

#[test]
fn a_whiteout_that_would_reach_further() {
    for name in [".wh.", ".wh..", ".wh...", "below/.wh..", "below/.wh...", ".wh.a/b"] {
        refused_with(Layer::new().file(name, ""), name, "whiteout");
    }
    refused_with(Layer::new().file("/.wh.etc", ""), "/.wh.etc", "absolute");
    refused_with(
        Layer::new().symlink("l", "/etc").file("l/.wh.passwd", ""),
        "l/.wh.passwd",
        "out of the image",
    );
    refused_with(
        Layer::new().symlink("l", "/etc").file("l/.wh..wh..opq", ""),
        "l/.wh..wh..opq",
        "out of the image",
    );
}

#[test]
fn a_device_that_is_not_harmless() {
    refused_with(Layer::new().device("sda", EntryType::Block, (8, 0)), "sda", "block device 8:0");
    refused_with(Layer::new().device("mem", EntryType::Char, (1, 1)), "mem", "character device 1:1");
    // What an overlay takes for a whiteout.
    refused_with(Layer::new().device("zero", EntryType::Char, (0, 0)), "zero", "character device 0:0");
}

#[test]
fn attributes_that_would_steer_the_overlay() {
    for name in ["trusted.overlay.redirect", "trusted.overlay.metacopy", "user.overlay.opaque"] {
        let key = format!("SCHILY.xattr.{name}");
        let layer = Layer::new().pax(&[(&key, b"/etc")]).file("f", "");
        refused_with(layer, "f", name);
    }
}

#[test]
fn owners_and_types_that_cannot_be() {
    refused_with(Layer::new().owned_file("u", "", (4_294_967_295, 0)), "u", "uid 4294967295 cannot be");
    refused_with(Layer::new().owned_file("g", "", (0, 1 << 33)), "g", "gid 8589934592 cannot be");
    refused_with(Layer::new().raw("?", "", Meta::of(EntryType::new(b'Z'), 0o644), b""), "?", "type 'Z'");
    refused_with(Layer::new().file("f", "").file("f/x", ""), "f/x", "\"f\" in its path is not a directory");
    refused_with(Layer::new().symlink("./", "x"), "./", "no file can have this name");
}

#[test]
fn a_sparse_file_in_a_form_that_is_not_read_is_not_taken_for_a_plain_one() {
    let layer = Layer::new().pax(&[("GNU.sparse.major", b"1"), ("GNU.sparse.minor", b"0")]).file("s", "1\n");
    refused_with(layer, "s", "sparse");
}

/// A gigabyte of zeros, as builders without sparse files write them: a few kilobytes compressed, and no bomb.
#[test]
fn a_gigabyte_of_zeros_takes_no_room() {
    let fixture = Fixture::new();
    let size = 1_u64 << 30;
    let mut compressed = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    let mut whole = ring::digest::Context::new(&ring::digest::SHA256);
    let meta = Meta { size, ..Meta::of(EntryType::Regular, 0o644) };
    let mut header = Layer::new().raw("zeros", "", meta, b"").finish();
    header.truncate(512);
    let mut write = |bytes: &[u8]| {
        compressed.write_all(bytes).unwrap();
        whole.update(bytes);
    };
    write(&header);
    let chunk = vec![0; 8 << 20];
    (0..size / (8 << 20)).for_each(|_| write(&chunk));
    write(&[0; 1024]);
    let hex: String = whole.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let packed = compressed.finish().unwrap();
    let found = import_packed(&fixture, &packed, &Digest::from_hex(&hex).unwrap()).unwrap();
    let file = fixture.files(&found).join("zeros").metadata().unwrap();
    assert_eq!((file.len(), found.bytes), (size, 0));
    assert!(file.blocks() < 64);
}

/// A docker archive around a layer that is given compressed.
fn import_packed(fixture: &Fixture, packed: &[u8], diff_id: &Digest) -> images::Result<images::Image> {
    let empty = image("localhost/packed:1", vec![]);
    let mut config: serde_json::Value = serde_json::from_slice(&empty.config_bytes()).unwrap();
    config["rootfs"]["diff_ids"] = json!([diff_id]);
    let manifest = json!([{"Config": "c.json", "RepoTags": ["localhost/packed:1"], "Layers": ["l.tar"]}]);
    let files = [
        ("manifest.json".to_owned(), manifest.to_string().into_bytes()),
        ("c.json".to_owned(), config.to_string().into_bytes()),
        ("l.tar".to_owned(), packed.to_vec()),
    ];
    let path = fixture.path("packed.tar");
    fs::write(&path, archive(&files.into_iter().collect())).unwrap();
    Ok(fixture.import_file(&path)?.remove(0))
}

#[test]
fn bombs_meet_a_limit() {
    let limits = Limits::default();
    let big = "A".repeat(3 << 20);
    let two = || Layer::new().file("first", "x").file("bomb", &big).finish();
    let error = refused(Limits { layer_bytes: 1 << 20, ..limits }, two());
    assert!(error.contains("entry \"bomb\": more than 1048576 bytes on disk"), "{error}");
    let error = refused(Limits { ratio: 20, ratio_from: 1 << 20, ..limits }, two());
    assert!(error.contains("entry \"bomb\": more than 20 times its compressed size"), "{error}");
    let error = refused(Limits { stream_bytes: 1 << 20, ..limits }, two());
    assert!(error.contains("entry \"bomb\": more than 1048576 bytes in the uncompressed archive"), "{error}");
    let many = (0..20).fold(Layer::new(), |layer, n| layer.file(&format!("f{n}"), "")).finish();
    let error = refused(Limits { entries: 10, ..limits }, many);
    assert!(error.contains("entry \"f10\": more than 10 entries"), "{error}");
    // A name of two megabytes, which the archive's reader would keep in memory.
    let long = Meta { size: 2 << 20, ..Meta::of(EntryType::GNULongName, 0o644) };
    let long = Layer::new().file("before", "").raw("././@LongLink", "", long, &vec![b'n'; 2 << 20]);
    let error = refused(limits, long.file("x", "").finish());
    assert!(error.contains("before") && error.contains("bytes of headers for one entry"), "{error}");
}

#[test]
fn an_archive_that_is_cut_or_damaged() {
    let whole = Layer::new().file("first", "x").file("second", &"y".repeat(5000)).finish();
    let error = refused(Limits::default(), whole[..2500].to_vec());
    assert!(error.contains("entry \"second\": it ends after 964 of 5000 bytes"), "{error}");
    let mut damaged = whole.clone();
    damaged[1024 + 3] ^= 1;
    let error = refused(Limits::default(), damaged);
    assert!(error.contains("entry \"first (after it)\"") && error.contains("checksum"), "{error}");
}

#[test]
fn an_outer_archive_that_is_cut_names_the_member() {
    let fixture = Fixture::new();
    let before = fixture.tree();
    let made = image("localhost/cut:1", vec![Layer::new().file("f", &"x".repeat(9000)).finish()]);
    let whole = archive(&made.packed(Packed::Plain).docker());
    let path = fixture.path("cut.tar");
    fs::write(&path, &whole[..4000]).unwrap();
    let error = fixture.import_file(&path).unwrap_err().to_string();
    assert!(error.contains("entry \"0/layer.tar\": it ends after"), "{error}");
    let mut cut = pack(&whole, Packed::Gzip);
    cut.truncate(cut.len() / 2);
    fs::write(&path, cut).unwrap();
    let error = fixture.import_file(&path).unwrap_err().to_string();
    assert!(error.contains("cut.tar: unreadable"), "{error}");
    assert_eq!(fixture.tree(), before);
}

fn tampered(change: impl FnOnce(&Made, &mut std::collections::BTreeMap<String, Vec<u8>>)) -> String {
    let fixture = Fixture::new();
    let before = fixture.tree();
    let layer = |name: &str| Layer::new().file(name, name).finish();
    let made = image("localhost/tampered:1", vec![layer("one"), layer("two")]);
    let mut files = made.layout();
    change(&made, &mut files);
    let path = fixture.path("tampered.tar");
    fs::write(&path, archive(&files)).unwrap();
    let error = fixture.import_file(&path).expect_err("tampered with, and taken").to_string();
    assert_eq!(fixture.tree(), before, "{error}");
    error
}

#[test]
fn content_that_is_not_what_its_digest_says() {
    for n in 0..2 {
        let error = tampered(|made, files| {
            let name = Digest::of(&pack(&made.layers[n], Packed::Gzip));
            let other = pack(&Layer::new().file("evil", "x").finish(), Packed::Gzip);
            files.insert(format!("blobs/sha256/{}", name.hex()), other);
        });
        assert!(error.starts_with("layer sha256:") && error.contains(" has "), "{error}");
    }
    let error = tampered(|made, files| {
        let config = String::from_utf8(made.config_bytes()).unwrap().replace("/bin/true", "/bin/evil");
        files.insert(format!("blobs/sha256/{}", made.id().hex()), config.into_bytes());
    });
    assert!(error.contains("has the digest sha256:") && error.contains("blobs/sha256/"), "{error}");
}

/// Layers in another order than the configuration's, each with a digest that is right.
#[test]
fn layers_in_another_order() {
    let fixture = Fixture::new();
    let before = fixture.tree();
    let layer = |name: &str| Layer::new().file(name, name).finish();
    let made = image("localhost/order:1", vec![layer("one"), layer("two")]);
    let mut files = made.docker();
    let swapped = json!([{"Config": format!("{}.json", made.id().hex()), "RepoTags": [], "Layers": ["1/layer.tar", "0/layer.tar"]}]);
    files.insert("manifest.json".to_owned(), swapped.to_string().into_bytes());
    let path = fixture.path("order.tar");
    fs::write(&path, archive(&files)).unwrap();
    let error = fixture.import_file(&path).unwrap_err().to_string();
    assert!(error.starts_with("layer 1/layer.tar, uncompressed, has the digest"), "{error}");
    files.insert(
        "manifest.json".to_owned(),
        swapped.to_string().replace(", \"0/layer.tar\"", "").replace(",\"0/layer.tar\"", "").into_bytes(),
    );
    fs::write(&path, archive(&files)).unwrap();
    let error = fixture.import_file(&path).unwrap_err().to_string();
    assert!(error.contains("it is of 2 layers, and there are 1"), "{error}");
    assert_eq!(fixture.tree(), before);
}

#[test]
fn what_is_no_image_is_told_so() {
    let fixture = Fixture::new();
    let path = fixture.path("x");
    for (content, why) in
        [(&b"hello"[..], "no archive"), (&archive(&Default::default()), "neither index.json")]
    {
        fs::write(&path, content).unwrap();
        let error = fixture.import_file(&path).unwrap_err().to_string();
        assert!(error.contains("is not an image") && error.contains(why), "{error}");
    }
    // A layout's directory whose blobs are links to somewhere else.
    let made = image("localhost/linked:1", vec![Layer::new().file("f", "").finish()]);
    let layout = made.write_layout(&fixture.path("layout"));
    let blob = layout.join(format!("blobs/sha256/{}", made.id().hex()));
    fs::rename(&blob, fixture.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(fixture.path("elsewhere"), &blob).unwrap();
    assert!(fixture.import_file(&layout).is_err(), "a link out of the layout was followed");
}

/// Chance that can be had again: the seed is printed, and taken from `WARDLET_SEED`.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let clock = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos().into();
        let seed = std::env::var("WARDLET_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(clock);
        println!("WARDLET_SEED={seed}");
        Self(seed)
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        of[usize::try_from(self.0 >> 33).unwrap() % of.len()]
    }
}

/// Entries in any order that link to each other and to the outside: whatever is taken or refused, nothing
/// beside the store changes, and a refusal leaves the store as it was.
#[test]
fn random_archives_never_reach_outside() {
    const NAMES: &[&str] = &[
        "a",
        "b",
        "a/b",
        "a/b/c",
        "b/a",
        "l",
        "l/a",
        "l/l",
        ".wh.a",
        "a/.wh.b",
        "l/.wh.x",
        "a/.wh..wh..opq",
        "./",
    ];
    const TARGETS: &[&str] =
        &["a", "b", "a/b", "..", "../..", "/", "/var/tmp", "l", "../../../../canary", "."];
    let rounds = std::env::var("WARDLET_ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1_u32);
    let mut dice = Dice::new();
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..60 * rounds {
        let fixture = Fixture::new();
        fs::write(fixture.path("canary"), "alive").unwrap();
        let mut layers = Vec::new();
        for _ in 0..2 {
            let mut layer = Layer::new();
            for _ in 0..6 {
                let name = dice.one(NAMES);
                layer = match dice.one(&["file", "file", "dir", "symlink", "link"]) {
                    "file" => layer.file(name, "x"),
                    "dir" => layer.dir(name, 0o700),
                    "symlink" => layer.symlink(name, dice.one(TARGETS)),
                    _ => layer.hard_link(name, dice.one(TARGETS)),
                };
            }
            layers.push(layer.finish());
        }
        let path = image("localhost/random:1", layers).write_docker(&fixture.path("random.tar"));
        let outside = |all: std::collections::BTreeMap<String, String>| {
            all.into_iter().filter(|(name, _)| !name.starts_with("images/")).collect::<Vec<_>>()
        };
        let before = tree(fixture.dir.path());
        match fixture.import_file(&path) {
            Ok(_) => taken += 1,
            Err(error) => {
                refused += 1;
                assert_eq!(tree(fixture.dir.path()), before, "{error}");
            }
        }
        assert_eq!(outside(tree(fixture.dir.path())), outside(before));
    }
    println!("{taken} taken, {refused} refused");
    assert!(refused > 0);
}
