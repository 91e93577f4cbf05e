//! Images of every form come in, and their layers are what an overlay shows as the image says.

use crate::common;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Fixture, Layer, Meta, Packed, archive, image, pack};
use ids::IdMapping;
use images::{Error, Images, Limits, Quiet};
use kernel::in_private_mount_namespace;
use tar::EntryType;

fn small() -> Vec<u8> {
    Layer::new().dir("bin", 0o755).file("bin/true", "#!").symlink("sh", "bin/true").finish()
}

#[test]
fn every_form_and_every_compression_is_the_same_image() {
    let fixture = Fixture::new();
    let made = |packed| image("localhost/form:1", vec![small()]).packed(packed);
    let mut seen = Vec::new();
    for packed in [Packed::Plain, Packed::Gzip, Packed::Zstd] {
        let forms = [archive(&made(packed).layout()), archive(&made(packed).docker())];
        for (n, form) in forms.iter().enumerate() {
            for outer in [Packed::Plain, Packed::Gzip, Packed::Zstd] {
                let path = fixture.path("one.tar");
                fs::write(&path, pack(form, outer)).unwrap();
                let found =
                    fixture.import_file(&path).unwrap_or_else(|e| panic!("{packed:?} {n} {outer:?}: {e}"));
                assert_eq!(found[0].names, ["localhost/form:1"]);
                seen.push(found[0].id.clone());
            }
        }
        let layout = made(packed).write_layout(&fixture.path(&format!("layout-{packed:?}")));
        seen.push(fixture.import_file(&layout).unwrap()[0].id.clone());
    }
    assert_eq!(seen.len(), 21);
    assert!(seen.iter().all(|id| *id == made(Packed::Plain).id()), "{seen:?}");
    assert_eq!(fixture.images.list().unwrap().images.len(), 1);
    assert_eq!(fixture.images.usage().unwrap().layers, 1, "unpacked once");
}

/// The real tools' own archives, where the machine has the tools' package.
#[test]
fn what_gnu_tar_writes_is_read_sparse_files_included() {
    let fixture = Fixture::new();
    let root = fixture.path("root");
    fs::create_dir_all(root.join("deep/er")).unwrap();
    fs::write(root.join("deep/er/file"), "text").unwrap();
    fs::hard_link(root.join("deep/er/file"), root.join("again")).unwrap();
    let hole = fs::File::create(root.join("hole")).unwrap();
    hole.set_len(10 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&hole, b"end", (10 << 30) - 3).unwrap();
    let name = format!("{}/{}", "n".repeat(120), "m".repeat(120));
    fs::create_dir_all(root.join(&name).parent().unwrap()).unwrap();
    fs::write(root.join(&name), "long").unwrap();
    let made = Command::new("tar")
        .args(["--sparse", "--format=gnu", "-C", root.to_str().unwrap(), "-cf"])
        .arg(fixture.path("layer.tar"))
        .arg(".")
        .status()
        .unwrap();
    assert!(made.success());
    let layer = fs::read(fixture.path("layer.tar")).unwrap();
    assert!(layer.len() < 1 << 20, "tar knows holes");
    let found = fixture.import(&image("localhost/gnu:1", vec![layer])).unwrap();
    let files = fixture.files(&found);
    let hole = files.join("hole").metadata().unwrap();
    assert_eq!(hole.len(), 10 << 30);
    assert!(hole.blocks() < 1024, "{} blocks of a hole", hole.blocks());
    assert!(found.bytes < 1 << 20, "{} bytes on disk", found.bytes);
    assert_eq!(fs::read_to_string(files.join(&name)).unwrap(), "long");
    let (one, two) =
        (files.join("again").metadata().unwrap(), files.join("deep/er/file").metadata().unwrap());
    assert_eq!((one.ino(), one.nlink()), (two.ino(), 2));
}

#[test]
fn owners_permissions_times_attributes_and_capabilities_are_kept() {
    let capability: &[u8] = &[1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let fixture = Fixture::new();
    let setuid = Meta { size: 2, ..Meta::of(EntryType::Regular, 0o4755).owned(7, 8) };
    let layer = Layer::new()
        .dir("./", 0o751)
        .dir("tmp", 0o1777)
        .raw("su", "", setuid, b"su")
        .pax(&[
            ("SCHILY.xattr.security.capability", capability),
            ("SCHILY.xattr.user.note", b"kept"),
            ("SCHILY.xattr.security.selinux", b"system_u:object_r:bin_t:s0"),
            ("mtime", b"1600000000.25"),
        ])
        .owned_file("ping", "ping", (1000, 1000))
        .device("dev/null", EntryType::Char, (1, 3))
        .raw("pipe", "", Meta::of(EntryType::Fifo, 0o600), b"")
        .finish();
    let found = fixture.import(&image("localhost/meta:1", vec![layer])).unwrap();
    let files = fixture.files(&found);
    let meta = |name: &str| files.join(name).symlink_metadata().unwrap();
    assert_eq!(files.metadata().unwrap().mode() & 0o7777, 0o751);
    assert_eq!(meta("tmp").mode() & 0o7777, 0o1777);
    assert_eq!(meta("tmp").mtime(), 1_700_000_000, "a directory's own time, not that of its last file");
    assert_eq!((meta("su").mode() & 0o7777, meta("su").uid(), meta("su").gid()), (0o4755, 7, 8));
    assert_eq!((meta("ping").mtime(), meta("ping").mtime_nsec()), (1_600_000_000, 250_000_000));
    let ping = fs::File::open(files.join("ping")).unwrap();
    let attribute = |name: &str| {
        let mut value = vec![0; 256];
        let length = rustix::fs::fgetxattr(&ping, name, value.as_mut_slice()).ok()?;
        value.truncate(length);
        Some(value)
    };
    assert_eq!(attribute("security.capability").as_deref(), Some(capability));
    assert_eq!(attribute("user.note").as_deref(), Some(&b"kept"[..]));
    assert_ne!(attribute("security.selinux").as_deref(), Some(&b"system_u:object_r:bin_t:s0"[..]));
    assert!(meta("dev/null").file_type().is_char_device() && meta("pipe").file_type().is_fifo());
    let store = fixture.images.root().metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(store, 0o700, "nobody else may run what is set-user-ID in there");
}

/// Mounts the image as an overlay, in a mount namespace of its own, and looks.
fn in_overlay<T: Send>(fixture: &Fixture, name: &str, look: impl FnOnce(&Path) -> T + Send) -> T {
    let found = fixture.images.find(name).unwrap();
    let lowers: Vec<String> =
        fixture.images.layers(&found).unwrap().iter().map(|path| path.display().to_string()).collect();
    let target = fixture.path("merged");
    fs::create_dir_all(&target).unwrap();
    in_private_mount_namespace(move |_| {
        let options = format!("lowerdir={}", lowers.join(":"));
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "overlay", "overlay", "-o", &options]).arg(&target).status().unwrap();
        assert!(mounted.success(), "{options}");
        look(&target)
    })
    .unwrap()
}

#[test]
fn whiteouts_and_opaque_directories_hide_what_is_below_and_only_that() {
    let below = Layer::new()
        .file("gone", "1")
        .file("stays", "1")
        .file("dir/old", "1")
        .file("replaced/old", "1")
        .file("turned/old", "1")
        .file("both/old", "1")
        .finish();
    let above = Layer::new()
        .file(".wh.gone", "")
        .file("dir/new", "2")
        .file("dir/.wh..wh..opq", "")
        // Whiteout first, then a new directory of the same name.
        .file(".wh.replaced", "")
        .file("replaced/new", "2")
        // The new directory first, then the whiteout: it is only about the layers below.
        .dir("both", 0o755)
        .file("both/new", "2")
        .file(".wh.both", "")
        .file("turned", "a file now")
        .file(".wh..wh.plnk/12.34", "aufs")
        .finish();
    let fixture = Fixture::new();
    fixture.import(&image("localhost/white:1", vec![below, above])).unwrap();
    let seen = in_overlay(&fixture, "localhost/white:1", common::tree);
    let names: Vec<&str> =
        seen.keys().map(String::as_str).filter(|name| !name.starts_with("lost+found")).collect();
    assert_eq!(
        names,
        ["both", "both/new", "dir", "dir/new", "replaced", "replaced/new", "stays", "turned"],
        "{seen:?}"
    );
}

/// An overlay does not look at the roots of its layers; whoever asks for the layers is told.
#[test]
fn an_opaque_root_hides_all_layers_below() {
    let below = Layer::new().file("old", "1").dir("tmp", 0o1777).finish();
    let above = Layer::new().file(".wh..wh..opq", "").file("tmp/new", "2").finish();
    let fixture = Fixture::new();
    let found = fixture.import(&image("localhost/fresh:1", vec![below, above])).unwrap();
    let shown = fixture.images.layers(&found).unwrap();
    assert_eq!(shown.len(), 1);
    let tmp = shown[0].join("tmp").metadata().unwrap().mode() & 0o7777;
    assert_eq!(tmp, 0o755, "nothing is taken from a layer that does not show");
}

/// A layer that adds a file to a directory of the layers below says nothing about the directory itself.
#[test]
fn a_directory_that_a_layer_does_not_name_stays_as_it_was_below() {
    let below = Layer::new()
        .dir("tmp", 0o1777)
        .dir("usr", 0o755)
        .dir("usr/lib", 0o750)
        .symlink("lib", "usr/lib")
        .finish();
    let above = Layer::new().file("tmp/x", "x").file("lib/y", "y").finish();
    let fixture = Fixture::new();
    fixture.import(&image("localhost/parents:1", vec![below, above])).unwrap();
    let (tmp, lib, through) = in_overlay(&fixture, "localhost/parents:1", |root| {
        let mode = |name: &str| root.join(name).symlink_metadata().unwrap().mode();
        (mode("tmp"), mode("lib"), fs::read_to_string(root.join("usr/lib/y")).unwrap())
    });
    assert_eq!(tmp & 0o7777, 0o1777, "/tmp is open to all");
    assert_eq!((lib & 0o170_000, through.as_str()), (0o120_000, "y"), "/lib is still a link");
}

#[test]
fn layers_are_shared_and_go_with_their_last_image() {
    let fixture = Fixture::new();
    let base = small();
    let (one, two) = (Layer::new().file("one", "1").finish(), Layer::new().file("two", "2").finish());
    fixture.import(&image("localhost/one:1", vec![base.clone(), one])).unwrap();
    fixture.import(&image("localhost/two:1", vec![base, two])).unwrap();
    assert_eq!(fixture.images.usage().unwrap().layers, 3);
    let removed = fixture.images.remove("localhost/one:1").unwrap();
    assert_eq!((removed.collected.layers, fixture.images.usage().unwrap().layers), (1, 2));
    assert!(matches!(fixture.images.find("localhost/one:1"), Err(Error::Unknown { .. })));
    let removed = fixture.images.remove("localhost/two:1").unwrap();
    assert_eq!((removed.collected.layers, fixture.images.usage().unwrap().layers), (2, 0));
    let left: Vec<String> = fixture.tree().into_keys().filter(|name| name.contains('/')).collect();
    assert_eq!(left, ["blobs/sha256"]);
}

#[test]
fn an_image_in_use_is_neither_removed_nor_collected() {
    let fixture = Fixture::new();
    let first = fixture.import(&image("localhost/used:1", vec![small()])).unwrap();
    fixture.images.hold(&first, "pod-1").unwrap();
    let error = fixture.images.remove("localhost/used:1").unwrap_err();
    assert_eq!(error.to_string(), "localhost/used:1 is in use by pod-1");
    // Its name moves on to another image: it has none any more, and is still there.
    let next = Layer::new().file("next", "").finish();
    fixture.import(&image("localhost/used:1", vec![next])).unwrap();
    assert_eq!(fixture.images.collect().unwrap().images, 0);
    assert_eq!(fixture.images.find(first.id.as_str()).unwrap().users, ["pod-1"]);
    fixture.images.release("pod-1").unwrap();
    let collected = fixture.images.collect().unwrap();
    assert_eq!((collected.images, collected.layers), (1, 1));
    for bad in ["", "../x", ".hidden", "a/b", "a b"] {
        assert!(matches!(fixture.images.release(bad), Err(Error::Holder { .. })), "{bad}");
    }
}

#[test]
fn the_highest_owner_is_known_with_its_file_and_refused_beyond_a_mapping() {
    let fixture = Fixture::new();
    let low = Layer::new().owned_file("srv/low", "", (1000, 70_000)).finish();
    let high = Layer::new().owned_file("opt/high", "", (6_553_600, 5)).finish();
    let found = fixture.import(&image("localhost/high:1", vec![low, high])).unwrap();
    assert_eq!((found.highest.uid.id, found.highest.uid.file.as_str()), (6_553_600, "opt/high"));
    assert_eq!((found.highest.gid.id, found.highest.gid.file.as_str()), (70_000, "srv/low"));
    let block = |length| vec![IdMapping::new(0, 1 << 20, length).unwrap()];
    let error = found.fits(&block(65536), &block(65536)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/opt/high in image localhost/high:1 belongs to uid 6553600, and only 65536 are mapped"
    );
    let error = found.fits(&block(6_553_601), &block(65536)).unwrap_err();
    assert!(error.to_string().contains("/srv/low"), "{error}");
    found.fits(&block(6_553_601), &block(70_001)).unwrap();
}

#[test]
fn one_name_stands_for_the_newest_and_the_old_one_is_collected() {
    let fixture = Fixture::new();
    let old = fixture.import(&image("localhost/moving:1", vec![small()])).unwrap();
    let new =
        fixture.import(&image("localhost/moving:1", vec![Layer::new().file("n", "").finish()])).unwrap();
    assert_eq!(fixture.images.find("localhost/moving:1").unwrap().id, new.id);
    assert_eq!(fixture.images.find(old.id.short()).unwrap().names, Vec::<String>::new());
    let collected = fixture.images.collect().unwrap();
    assert_eq!((collected.images, collected.layers), (1, 1));
}

#[test]
fn many_at_once_leave_one_store() {
    let fixture = Fixture::new();
    let base = small();
    let paths: Vec<PathBuf> = (0..8)
        .map(|n| {
            let own = Layer::new().file(&format!("own-{}", n % 4), "x").finish();
            let made = image(&format!("localhost/many:{n}"), vec![base.clone(), own]);
            made.write_docker(&fixture.path(&format!("{n}.tar")))
        })
        .collect();
    std::thread::scope(|scope| {
        for path in &paths {
            scope.spawn(|| {
                // Each with a store of its own over the same directory, as processes have it.
                let images = Images::open(fixture.images.root(), Limits::default()).unwrap();
                images.import(path, None, &Quiet).unwrap();
                images.collect().unwrap();
            });
        }
    });
    let listing = fixture.images.list().unwrap();
    assert!(listing.damaged.is_empty(), "{:?}", listing.damaged);
    assert_eq!(listing.images.iter().map(|image| image.names.len()).sum::<usize>(), 8);
    assert_eq!(fixture.images.usage().unwrap().layers, 5);
}

#[test]
fn a_damaged_record_is_told_and_stops_nothing_but_the_collection() {
    let fixture = Fixture::new();
    let good = fixture.import(&image("localhost/good:1", vec![small()])).unwrap();
    let bad = fixture.import(&image("localhost/bad:1", vec![Layer::new().file("b", "").finish()])).unwrap();
    let record = fixture.images.root().join(format!("images/{}.json", bad.id.hex()));
    fs::write(&record, "{").unwrap();
    let listing = fixture.images.list().unwrap();
    assert_eq!(listing.images.iter().map(|image| &image.id).collect::<Vec<_>>(), [&good.id]);
    assert!(listing.damaged[0].to_string().contains(record.to_str().unwrap()), "{:?}", listing.damaged);
    assert!(fixture.images.collect().is_err(), "the record may speak for any layer");
    assert_eq!(fs::read_dir(fixture.images.root().join("layers")).unwrap().count(), 2);
    fs::remove_file(record).unwrap();
    assert_eq!(fixture.images.collect().unwrap().layers, 1);
}

#[test]
fn a_store_of_a_newer_version_is_left_alone() {
    let fixture = Fixture::new();
    fs::write(fixture.images.root().join("version"), "2\n").unwrap();
    let error = Images::open(fixture.images.root(), Limits::default()).unwrap_err();
    assert!(error.to_string().ends_with("is of version 2; this wardlet knows version 1"), "{error}");
}

#[test]
fn an_import_that_nobody_wants_any_more_ends_and_leaves_nothing() {
    struct Impatient;
    impl images::Progress for Impatient {
        fn step(&self, step: images::Step<'_>) -> std::ops::ControlFlow<()> {
            match step {
                images::Step::Unpacking { layer: 2, .. } => std::ops::ControlFlow::Break(()),
                _ => std::ops::ControlFlow::Continue(()),
            }
        }
    }
    let fixture = Fixture::new();
    let before = fixture.tree();
    let path = image("localhost/x:1", vec![small(), Layer::new().file("n", "").finish()])
        .write_docker(&fixture.path("x.tar"));
    assert!(matches!(fixture.images.import(&path, None, &Impatient), Err(Error::Interrupted)));
    assert_eq!(fixture.tree(), before);
}
