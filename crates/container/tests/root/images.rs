//! Images mounted into a container that is not made of them, on the real kernel.

use crate::support;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use container::{ContainerSpec, Error, ImageFiles, MountSpec, NamespaceSpec};
use kernel::{MountTable, Within};
use rustix::fs::{CWD, FileType, XattrFlags, lsetxattr, makedev, mknodat};
use support::{BASE, inside, maps, owner, start};

/// An image of three layers: `data` is in all of them, `gone` is taken away by the uppermost, `hidden` of
/// the lowest is covered by one that shows nothing below it.
fn layers(dir: &Path) -> Vec<PathBuf> {
    let layer = |name: &str| {
        let path = dir.join("image").join(name);
        fs::create_dir_all(path.join("data")).unwrap();
        fs::write(path.join("data").join(name), name).unwrap();
        fs::write(path.join("data/same"), name).unwrap();
        chown(path.join("data").join(name), Some(1000), Some(1001)).unwrap();
        path
    };
    let (low, middle, top) = (layer("low"), layer("middle"), layer("top"));
    fs::write(low.join("gone"), "").unwrap();
    mknodat(CWD, top.join("gone"), FileType::CharacterDevice, 0.into(), 0).unwrap();
    fs::create_dir(low.join("hidden")).unwrap();
    fs::write(low.join("hidden/file"), "").unwrap();
    fs::create_dir(middle.join("hidden")).unwrap();
    lsetxattr(middle.join("hidden"), "trusted.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
    fs::copy("/bin/true", low.join("data/program")).unwrap();
    mknodat(CWD, low.join("data/null"), FileType::CharacterDevice, 0o666.into(), makedev(1, 3)).unwrap();
    vec![top, middle, low]
}

fn shown(layers: &[PathBuf], sub_path: &str) -> ImageFiles {
    ImageFiles {
        layers: layers.to_vec(),
        sub_path: sub_path.into(),
        target: "/image".into(),
        ids: Some(maps()),
    }
}

fn with(dir: &Path, images: &[ImageFiles]) -> ContainerSpec {
    let mut start = start(dir);
    start.mounts = images.iter().cloned().map(MountSpec::Image).collect();
    start
}

/// Not on a tmpfs: those who look at layers there cannot be told owners by every kernel.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

#[test]
fn layers_are_shown_as_one_with_the_pods_owners() {
    let dir = scratch();
    let layers = layers(dir.path());
    let start = with(dir.path(), &[shown(&layers, "")]);
    let seen = inside(&start, dir.path(), |made| {
        let image = &made.ready.binds[0];
        let names = |at: &Path| {
            let mut names: Vec<_> =
                fs::read_dir(at).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!(names(image), "data hidden");
        assert_eq!(names(&image.join("hidden")), "");
        assert_eq!(names(&image.join("data")), "low middle null program same top");
        assert_eq!(fs::read_to_string(image.join("data/same")).unwrap(), "top");
        ["low", "middle", "top", "program"].map(|name| owner(&image.join("data").join(name)))
    });
    let user = (BASE + 1000, BASE + 1001);
    assert_eq!(seen.unwrap(), [user, user, user, (BASE, BASE)]);
    assert_eq!(owner(&layers[0].join("data/top")), (1000, 1001));
}

#[test]
fn its_programs_run_and_nothing_of_it_is_changed_or_opened_as_a_device() {
    let dir = scratch();
    let layers = layers(dir.path());
    let lowest = &layers[2..];
    let start = with(dir.path(), &[shown(&layers, ""), shown(lowest, ""), shown(&layers, "data")]);
    inside(&start, dir.path(), |made| {
        for (image, data) in made.ready.binds.iter().zip(["data", "data", ""]) {
            let data = image.join(data);
            let kind = |result: std::io::Result<()>| result.unwrap_err().kind();
            assert_eq!(kind(fs::write(data.join("new"), "")), ErrorKind::ReadOnlyFilesystem);
            assert_eq!(kind(fs::remove_file(data.join("low"))), ErrorKind::ReadOnlyFilesystem);
            // By its name: it may be a program that does many things.
            assert!(Command::new(data.join("program")).arg0("true").status().unwrap().success());
            assert_eq!(kind(fs::File::open(data.join("null")).map(drop)), ErrorKind::PermissionDenied);
        }
    })
    .unwrap();
}

#[test]
fn a_part_of_an_image_is_shown_alone() {
    let dir = scratch();
    let layers = layers(dir.path());
    let parts = ["data", "data/middle", "./data//low"].map(|part| shown(&layers, part));
    let start = with(dir.path(), &parts);
    let seen = inside(&start, dir.path(), |made| {
        let [data, middle, low] = [0, 1, 2].map(|number| &made.ready.binds[number]);
        // The way up ends at what is mounted around it.
        let up = kernel::Dir::open(data).unwrap().open_below(Path::new("../hidden"), Within::AsRoot);
        assert!(up.is_err(), "{up:?}");
        [data.join("middle"), middle.clone(), low.clone()]
            .map(|file| (fs::read_to_string(&file).unwrap(), owner(&file)))
    });
    let user = (BASE + 1000, BASE + 1001);
    assert_eq!(seen.unwrap(), ["middle", "middle", "low"].map(|text| (text.to_owned(), user)));
}

/// The image is its author's: links to the host's files, in any layer and in any part of the path.
#[test]
fn no_link_of_an_image_leads_out_of_it() {
    let dir = scratch();
    let layers = layers(dir.path());
    fs::write(dir.path().join("secret"), "").unwrap();
    let links = [
        ("absolute", "/etc"),
        ("file", "/etc/passwd"),
        ("up", "../../secret"),
        ("far", "../../../../../../../../etc"),
        ("own", "data"),
        ("magic", "/proc/self/root"),
        ("loop", "loop"),
    ];
    for (name, leads_to) in links {
        symlink(leads_to, layers[1].join(name)).unwrap();
    }
    // A directory below, and a link in its place above.
    fs::create_dir(layers[2].join("covered")).unwrap();
    fs::write(layers[2].join("covered/passwd"), "").unwrap();
    symlink("/etc", layers[0].join("covered")).unwrap();
    let hostile = [
        "absolute",
        "absolute/passwd",
        "file",
        "up",
        "far/passwd",
        "own",
        "own/low",
        "magic/etc",
        "loop",
        "covered/passwd",
        "covered",
        "../secret",
        "../../secret",
        "data/../../image",
        "/etc/passwd",
        "gone",
        "hidden/file",
        "missing",
    ];
    for some in [&layers[..], &layers[1..2]] {
        for path in hostile {
            let start = with(dir.path(), &[shown(some, path)]);
            let error = inside(&start, dir.path(), |_| ()).unwrap_err();
            assert!(
                matches!(&error, Error::ImagePath { sub_path, .. } if sub_path == Path::new(path)),
                "{error}"
            );
            assert!(error.hint().unwrap().contains("links are not followed"));
        }
    }
    let start = with(dir.path(), &[shown(&layers, "data/null")]);
    let error = inside(&start, dir.path(), |_| ()).unwrap_err();
    let words = "data/null of an image cannot be mounted at /image: it is neither file nor directory";
    assert_eq!(error.to_string(), words);
}

#[test]
fn the_way_to_the_rest_of_an_image_is_gone() {
    let dir = scratch();
    let layers = layers(dir.path());
    let start = with(dir.path(), &[shown(&layers, "data"), shown(&layers, "data/low")]);
    let stage = dir.path().join("stage");
    let left = inside(&start, dir.path(), |_| {
        let table = MountTable::read().unwrap();
        let below = table.below(&stage).map(|mount| mount.point.strip_prefix(&stage).unwrap().to_owned());
        below.collect::<Vec<_>>()
    });
    let left: Vec<_> = left
        .unwrap()
        .into_iter()
        .filter(|point| point.starts_with("binds") || point.to_string_lossy().contains("shown"))
        .collect();
    assert_eq!(left, [PathBuf::from("binds/0"), "binds/1".into()]);
    assert_eq!(MountTable::read().unwrap().below(dir.path()).count(), 0);
}

#[test]
fn a_pod_with_the_hosts_users_sees_an_images_owners_as_they_are() {
    let dir = scratch();
    let layers = layers(dir.path());
    let mut start = with(dir.path(), &[ImageFiles { ids: None, ..shown(&layers, "data") }]);
    (start.ids, start.namespaces) = (None, support::spaces(NamespaceSpec::Host));
    let seen = inside(&start, dir.path(), |made| owner(&made.ready.binds[0].join("low")));
    assert_eq!(seen.unwrap(), (1000, 1001));
}

#[test]
fn layers_that_cannot_be_idmapped_or_are_not_there_are_named() {
    let dir = scratch();
    let layers = layers(dir.path());
    let refused = |layers: &[PathBuf]| {
        let start = with(dir.path(), &[shown(layers, "")]);
        inside(&start, dir.path(), |_| ()).unwrap_err().to_string()
    };
    let unfit = [layers[0].clone(), "/proc/sys".into()];
    assert_eq!(refused(&unfit), "layer /proc/sys cannot be idmapped");
    assert_eq!(refused(&[]), "the image for /image has no layers");
    assert!(refused(&["/nonexistent/layer".into()]).contains("/nonexistent/layer"));
}
