//! Users and groups looked up in a container's own files.

use crate::support;

use std::fs;
use std::path::Path;

use container::{Error, GroupPolicy, User, WantedUser, user};
use kernel::Dir;
use support::{inside, start};

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:100:Ann:/home/ann:/bin/sh\n\
                      bob:x:1001:101::relative:/bin/sh\nnonsense\n";
const GROUP: &str = "root:x:0:\nusers:x:100:\nwheel:x:10:ann,root\nann:x:77:ann\ndisk:x:6:ann\n";

fn image(passwd: &str, group: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("etc")).unwrap();
    fs::write(dir.path().join("etc/passwd"), passwd).unwrap();
    fs::write(dir.path().join("etc/group"), group).unwrap();
    dir
}

fn named(name: &str) -> WantedUser {
    WantedUser { name: Some(name.into()), ..WantedUser::default() }
}

fn found(root: &Path, wanted: &WantedUser) -> Result<(User, Option<String>), Error> {
    user::resolve(&Dir::open(root).unwrap(), wanted)
}

fn who(uid: u32, gid: u32, groups: &[u32]) -> User {
    User { uid, gid, groups: groups.to_vec() }
}

#[test]
fn names_and_numbers_are_looked_up_as_other_runtimes_do() {
    let image = image(PASSWD, GROUP);
    let home = |path: &str| Some(path.to_owned());
    let cases = [
        (WantedUser::default(), who(0, 0, &[0, 10]), home("/root")),
        (named("ann"), who(1000, 100, &[100, 10, 6]), home("/home/ann")),
        (named("1000"), who(1000, 100, &[100, 10, 6]), home("/home/ann")),
        (named("ann:wheel"), who(1000, 10, &[10, 6]), home("/home/ann")),
        (named("ann:4242"), who(1000, 4242, &[4242, 10, 6]), home("/home/ann")),
        (named("4242"), who(4242, 0, &[0]), None),
        (named("4242:disk"), who(4242, 6, &[6]), None),
        (named(":disk"), who(0, 6, &[6, 10]), home("/root")),
        (named("bob"), who(1001, 101, &[101]), None),
    ];
    for (wanted, user, home) in cases {
        assert_eq!(found(image.path(), &wanted).unwrap(), (user, home), "{wanted:?}");
    }
}

#[test]
fn what_the_pod_says_counts_before_what_the_image_says() {
    let image = image(PASSWD, GROUP);
    let pods_user = WantedUser { uid: Some(5), ..named("ann:wheel") };
    assert_eq!(found(image.path(), &pods_user).unwrap().0, who(5, 0, &[0]));
    let pods_group = WantedUser { gid: Some(9), groups: vec![10, 3000], ..named("ann:wheel") };
    assert_eq!(found(image.path(), &pods_group).unwrap().0, who(1000, 9, &[9, 10, 6, 3000]));
    let by_number = WantedUser { uid: Some(1000), ..WantedUser::default() };
    assert_eq!(found(image.path(), &by_number).unwrap().0, who(1000, 100, &[100, 10, 6]));
}

#[test]
fn strictly_only_the_pods_own_groups_count() {
    let image = image(PASSWD, GROUP);
    let strict = WantedUser { policy: GroupPolicy::Strict, groups: vec![3000], ..named("ann") };
    assert_eq!(found(image.path(), &strict).unwrap().0, who(1000, 100, &[100, 3000]));
}

#[test]
fn a_name_that_is_not_there_is_an_error_that_names_the_file() {
    let image = image(PASSWD, GROUP);
    let message = |name: &str| found(image.path(), &named(name)).unwrap_err().to_string();
    assert_eq!(message("eve"), "there is no user \"eve\" in the container's /etc/passwd");
    assert_eq!(message("ann:nobody"), "there is no group \"nobody\" in the container's /etc/group");
    assert_eq!(message("99999999999"), "there can be no user with the ID 99999999999");
    assert_eq!(message("4294967295"), "there can be no user with the ID 4294967295");
    let empty = tempfile::tempdir().unwrap();
    assert!(found(empty.path(), &named("ann")).is_err());
    assert_eq!(found(empty.path(), &named("7:8")).unwrap().0, who(7, 8, &[8]));
}

#[test]
fn hostile_files_lead_nowhere_and_stop_nothing() {
    let image = image(PASSWD, GROUP);
    let passwd = image.path().join("etc/passwd");
    let refused = || {
        let error = found(image.path(), &named("ann")).unwrap_err();
        assert!(matches!(error, Error::UnfitFile { .. }), "{error}");
    };
    let put = |make: &dyn Fn(&Path)| {
        fs::remove_file(&passwd).unwrap();
        make(&passwd);
    };
    put(&|path| fs::File::create(path).unwrap().set_len((16 << 20) + 1).unwrap());
    refused();
    put(&|path| rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o644.into()).unwrap());
    refused();
    put(&|path| {
        let kind = rustix::fs::FileType::CharacterDevice;
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, 0o644.into(), rustix::fs::makedev(1, 5)).unwrap();
    });
    refused();
    // The host's own file, by a link that means it: inside it leads to nothing.
    put(&|path| std::os::unix::fs::symlink("../../../../../../../../etc/hostname", path).unwrap());
    let error = found(image.path(), &named("ann")).unwrap_err();
    assert!(matches!(error, Error::NoSuchUser { .. }), "{error}");
    put(&|path| std::os::unix::fs::symlink("passwd", path).unwrap());
    assert!(found(image.path(), &named("ann")).is_err());
    put(&|path| {
        fs::write(path, [0xff, b':', 0, b'\n', b'a', b'n', b'n', b':', b'x', b':', b'1', b':', b'2']).unwrap()
    });
    assert_eq!(found(image.path(), &named("ann")).unwrap().0.uid, 1);
}

#[test]
fn a_container_made_ready_knows_its_user() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = start(dir.path());
    let etc = start.rootfs.lowers[0].join("etc");
    fs::create_dir(&etc).unwrap();
    fs::write(etc.join("passwd"), PASSWD).unwrap();
    fs::write(etc.join("group"), GROUP).unwrap();
    start.process.user = named("ann");
    let (user, home) =
        inside(&start, dir.path(), |made| (made.ready.user.clone(), made.ready.home.clone())).unwrap();
    assert_eq!((user, home.as_deref()), (who(1000, 100, &[100, 10, 6]), Some("/home/ann")));
    start.process.user = named("eve");
    assert!(matches!(inside(&start, dir.path(), |_| ()).unwrap_err(), Error::NoSuchUser { .. }));
}

/// The container may have written them: they must not cost more than they are worth.
#[test]
fn more_groups_than_the_kernel_takes_are_refused_and_so_is_a_file_that_is_too_large() {
    let many = |count: u32| (1..=count).map(|gid| format!("g:x:{gid}:ann\n")).collect::<String>();
    let most = image("ann:x:1000:0::/:\n", &many(65_535));
    assert_eq!(found(most.path(), &named("ann")).unwrap().0.groups.len(), 65_536);
    let more = image("ann:x:1000:0::/:\n", &many(65_536));
    let error = found(more.path(), &named("ann")).unwrap_err().to_string();
    assert!(error.contains("/etc/group") && error.contains("65536 groups"), "{error}");
    let large = image("ann:x:1000:0::/:\n", &"#".repeat((2 << 20) + 1));
    let error = found(large.path(), &named("ann")).unwrap_err().to_string();
    assert!(error.contains("/etc/group") && error.contains("2 MiB"), "{error}");
}
