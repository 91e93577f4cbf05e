//! An image's files given to a container's users where they cannot be shown to it so.

use crate::support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use container::prepare::{ChownCost, LayersMapped, chown_cost, chown_estimate};
use container::{ContainerSpec, Error, Owners};
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use support::{BASE, inside, owner, start};

const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A container over two layers with eight files and directories.
fn image(dir: &Path) -> ContainerSpec {
    let mut start = start(dir);
    start.rootfs.owners = Owners::Chown;
    let (lower, upper) = (start.rootfs.lowers[0].clone(), dir.join("upper-layer"));
    fs::create_dir_all(lower.join("bin/deep")).unwrap();
    fs::create_dir_all(upper.join("bin")).unwrap();
    fs::write(lower.join("bin/large"), vec![7; 4 << 20]).unwrap();
    fs::write(lower.join("bin/su"), "setuid").unwrap();
    fs::set_permissions(lower.join("bin/su"), Permissions::from_mode(0o4755)).unwrap();
    fs::write(lower.join("bin/ping"), "").unwrap();
    lsetxattr(lower.join("bin/ping"), "security.capability", &CAPABILITY, XattrFlags::empty()).unwrap();
    fs::write(lower.join("bin/hidden"), "below").unwrap();
    fs::write(upper.join("bin/hidden"), "above").unwrap();
    chown(upper.join("bin/hidden"), Some(1000), Some(1001)).unwrap();
    let acl = support::acl(1000, 1001);
    lsetxattr(lower.join("bin/ping"), "system.posix_acl_access", &acl, XattrFlags::empty()).unwrap();
    symlink("/etc/shadow", lower.join("link")).unwrap();
    lchown(lower.join("link"), Some(5), Some(6)).unwrap();
    fs::hard_link(lower.join("bin/large"), lower.join("bin/deep/same")).unwrap();
    start.rootfs.lowers.insert(0, upper);
    start
}

fn cost(layers: LayersMapped) -> ChownCost {
    match layers {
        LayersMapped::Chowned(cost) => cost,
        other => panic!("not given away: {other:?}"),
    }
}

/// Everything that an image's files are, as the container sees them.
fn as_it_is_to_be(rootfs: &Path) {
    let seen = |name: &str| owner(&rootfs.join(name));
    assert_eq!((seen(""), seen("bin"), seen("bin/large")), ((BASE, BASE), (BASE, BASE), (BASE, BASE)));
    assert_eq!((seen("bin/hidden"), seen("link")), ((BASE + 1000, BASE + 1001), (BASE + 5, BASE + 6)));
    assert_eq!(fs::metadata(rootfs.join("bin/su")).unwrap().mode() & 0o7777, 0o4755);
    assert_eq!(fs::read_to_string(rootfs.join("bin/hidden")).unwrap(), "above");
    assert_eq!(fs::read(rootfs.join("bin/large")).unwrap(), vec![7; 4 << 20]);
    let mut raw = [0; 64];
    let length = lgetxattr(rootfs.join("bin/ping"), "security.capability", raw.as_mut_slice()).unwrap();
    assert_eq!(raw[..length], CAPABILITY);
    let length = lgetxattr(rootfs.join("bin/ping"), "system.posix_acl_access", raw.as_mut_slice()).unwrap();
    assert_eq!(raw[..length], support::acl(BASE + 1000, BASE + 1001));
    let inode = |name: &str| fs::metadata(rootfs.join(name)).unwrap().ino();
    assert_eq!(inode("bin/large"), inode("bin/deep/same"));
}

#[test]
fn every_file_is_the_containers_and_only_what_changed_was_copied() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let start = image(dir.path());
    assert_eq!(chown_cost(&start).unwrap(), None);
    let layers = inside(&start, dir.path(), |made| {
        as_it_is_to_be(&made.ready.rootfs);
        made.layers
    });
    let cost = cost(layers.unwrap());
    assert_eq!((cost.files, chown_cost(&start).unwrap()), (8, Some(cost)));
    assert_eq!(chown_estimate(&start).unwrap(), 10, "hidden ones are counted, too");
    let large = fs::metadata(start.rootfs.upper.join("bin/large")).unwrap();
    assert!(large.blocks() < 64, "only its owner was copied: {} blocks", large.blocks());
    assert_eq!(owner(&start.rootfs.lowers[1].join("bin/large")), (0, 0));
}

#[test]
fn it_is_done_once_and_what_the_container_changed_stays() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let start = image(dir.path());
    let first = inside(&start, dir.path(), |made| {
        chown(made.ready.rootfs.join("bin/su"), Some(1_048_676), Some(1_048_676)).unwrap();
        fs::write(made.ready.rootfs.join("bin/large"), "small now").unwrap();
        cost(made.layers)
    })
    .unwrap();
    let again = inside(&start, dir.path(), |made| {
        assert_eq!(owner(&made.ready.rootfs.join("bin/su")), (BASE + 100, BASE + 100));
        assert_eq!(fs::read_to_string(made.ready.rootfs.join("bin/deep/same")).unwrap(), "small now");
        cost(made.layers)
    });
    assert_eq!(again.unwrap(), first);
}

/// What had been given away before the kill is not given away twice, whatever the maps are: here the
/// host's IDs are IDs of the container, too.
#[test]
fn a_killed_attempt_is_taken_up_where_it_was_left() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = image(dir.path());
    let line = ids::IdMapping::new(0, 1000, 100_000).unwrap();
    start.ids = Some(ids::IdMappings { uids: vec![line], gids: vec![line] });
    let seen = |made: &container::prepare::PreparedRootfs| {
        let owner = |name: &str| owner(&made.ready.rootfs.join(name));
        let mode = fs::metadata(made.ready.rootfs.join("bin/su")).unwrap().mode() & 0o7777;
        (owner("bin/hidden"), owner("bin/su"), owner("link"), mode)
    };
    let expected = ((2000, 2001), (1000, 1000), (1005, 1006), 0o4755);
    let stop_half_way = |made: &container::prepare::PreparedRootfs| {
        // As it is between a change of owner and what follows it, and before the end was noted.
        lchown(made.ready.rootfs.join("link"), Some(5), Some(6)).unwrap();
        fs::set_permissions(made.ready.rootfs.join("bin/su"), Permissions::from_mode(0o755)).unwrap();
        seen(made)
    };
    let half = inside(&start, dir.path(), stop_half_way).unwrap();
    assert_eq!(half, ((2000, 2001), (1000, 1000), (5, 6), 0o755));
    fs::remove_file(dir.path().join("rw/owners.json")).unwrap();
    assert_eq!(inside(&start, dir.path(), seen).unwrap(), expected);
    fs::write(dir.path().join("rw/owners.json"), "{ half a rec").unwrap();
    assert_eq!(inside(&start, dir.path(), seen).unwrap(), expected);
}

#[test]
fn an_owner_beyond_the_maps_is_named_with_its_file() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let start = image(dir.path());
    chown(start.rootfs.lowers[1].join("bin/su"), Some(70_000), Some(0)).unwrap();
    let error = inside(&start, dir.path(), |_| ()).unwrap_err();
    assert!(matches!(&error, Error::Unmapped { id: 70_000, .. }), "{error}");
    assert!(error.to_string().contains("/bin/su"), "{error}");
}

#[test]
fn files_are_given_away_only_where_they_cannot_be_mapped_unless_it_is_asked_for() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = image(dir.path());
    start.rootfs.owners = Owners::IdmapOrChown;
    let layers = inside(&start, dir.path(), |made| made.layers).unwrap();
    assert!(matches!(layers, LayersMapped::Idmapped(_)), "{layers:?}");
}

/// ramfs cannot be idmapped on any kernel.
#[test]
fn where_the_kernel_cannot_map_they_are_given_away_or_refused_as_was_said() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = start(dir.path());
    let layer = start.rootfs.lowers[0].clone();
    let outcome = kernel::in_private_mount_namespace(|_| {
        rustix::mount::mount("ramfs", &layer, "ramfs", rustix::mount::MountFlags::empty(), None).unwrap();
        fs::write(layer.join("file"), "x").unwrap();
        start.rootfs.owners = Owners::Idmap;
        let refused = inside(&start, dir.path(), |_| ()).map_err(|error| error.to_string());
        start.rootfs.owners = Owners::IdmapOrChown;
        let given = inside(&start, dir.path(), |made| {
            (cost(made.layers).files, owner(&made.ready.rootfs.join("file")))
        });
        (refused, given.map_err(|error| error.to_string()))
    });
    let (refused, given) = outcome.unwrap();
    assert!(refused.unwrap_err().ends_with("cannot be idmapped"));
    assert_eq!(given.unwrap(), (1, (BASE, BASE)));
}
