//! Findings 2, 6, 12 and 13, and the rest of the paths below the container's `/` that an engine touches before
//! pivot_root. The engine joined them to the path of that `/` and followed the image's links with the host's files around
//! it: an image whose `/dev` was a link had host root create and delete files in a directory of the host.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use container::{
    Bind, Console, Device, Engine, ImageVolume, MountPropagation, MountSpec, NodeOwner, ReadOnly,
};

use super::variants::{Attacker, Processes, Variant};
use crate::support::Users;

/// A directory of the host with a file in it that an engine would delete, writable for everybody.
struct HostDir {
    dir: tempfile::TempDir,
}

impl HostDir {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(dir.path().join("ptmx"), "of the host").unwrap();
        fs::create_dir(dir.path().join("fs")).unwrap();
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    #[track_caller]
    fn is_untouched(&self, variant: &Variant) {
        let mut names: Vec<_> =
            fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["fs", "ptmx"], "{variant:?}");
        assert_eq!(fs::read_dir(self.path().join("fs")).unwrap().count(), 0, "{variant:?}");
        assert_eq!(fs::read_to_string(self.path().join("ptmx")).unwrap(), "of the host", "{variant:?}");
    }
}

fn variants() -> impl Iterator<Item = Variant> {
    Variant::all().into_iter().filter(|one| one.processes == Processes::Own)
}

fn is_built_in(variant: &Variant) -> bool {
    variant.engine == Engine::Libcontainer
}

fn bind(source: &Path, target: &str) -> MountSpec {
    MountSpec::Bind(Bind {
        source: source.to_owned(),
        target: target.into(),
        ids: None,
        read_only: ReadOnly::No,
        propagation: MountPropagation::None,
        options: Vec::new(),
    })
}

/// A directory of the host that is a volume of the container, readable for its root.
fn volume(attacker: &Attacker, name: &str) -> PathBuf {
    let path = attacker.container.path(name);
    fs::create_dir_all(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    path
}

fn replace_by_link(attacker: &Attacker, name: &str, to: &Path) {
    let path = attacker.container.layer().join(name);
    let _ = fs::remove_dir(&path);
    symlink(to, path).unwrap();
}

#[track_caller]
fn refused(attacker: &mut Attacker, variant: &Variant) -> String {
    let answer = attacker.run();
    assert!(attacker.container.init.is_none(), "{variant:?}: it was started: {answer}");
    assert!(attacker.container.left().is_empty(), "{variant:?}: {:?}", attacker.container.left());
    answer["failed"]["what"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn an_image_whose_dev_is_a_link_makes_nothing_on_the_host() {
    for variant in variants() {
        for form in ["absolute", "relative", "chain"] {
            let host = HostDir::new();
            let mut attacker = variant.container(&["/bin/sleep", "1000"]);
            let to = match form {
                "absolute" => host.path().to_owned(),
                "relative" => {
                    let up = "../".repeat(12);
                    Path::new(&up).join(host.path().strip_prefix("/").unwrap())
                }
                _ => {
                    symlink(host.path(), attacker.container.layer().join("first")).unwrap();
                    "first".into()
                }
            };
            replace_by_link(&attacker, "dev", &to);
            // Where the link leads inside of the container there is a directory, too, so that /dev can be mounted.
            let inside = host.path().strip_prefix("/").unwrap();
            fs::create_dir_all(attacker.container.layer().join(inside)).unwrap();
            let answer = attacker.run();
            host.is_untouched(&variant);
            assert!(attacker.container.init.is_none(), "{variant:?} {form}");
            assert!(answer.to_string().contains("/dev"), "{answer}");
        }
    }
}

#[test]
fn an_image_whose_proc_or_sys_is_a_link_is_refused() {
    for variant in variants() {
        for name in ["proc", "sys"] {
            let host = HostDir::new();
            let mut attacker = variant.container(&["/bin/sleep", "1000"]);
            replace_by_link(&attacker, name, host.path());
            let what = refused(&mut attacker, &variant);
            assert!(what.contains(name), "{what}");
            host.is_untouched(&variant);
        }
    }
}

/// A volume that a link of the image leads to `/` covers the container's own, with the volume's `/dev`.
#[test]
fn a_link_to_the_root_lets_no_volume_bring_its_own_dev() {
    for variant in variants() {
        let host = HostDir::new();
        let mut attacker = variant.container(&["/bin/sleep", "1000"]);
        symlink("/", attacker.container.layer().join("link")).unwrap();
        let volume = volume(&attacker, "volume");
        for name in ["bin", "proc", "sys"] {
            fs::create_dir(volume.join(name)).unwrap();
        }
        symlink(host.path(), volume.join("dev")).unwrap();
        attacker.container.job.start.mounts.push(bind(&volume, "/link"));
        attacker.run();
        host.is_untouched(&variant);
        if is_built_in(&variant) {
            assert!(attacker.container.init.is_none(), "{variant:?}");
        }
    }
}

/// The same by way of a volume, whose contents another container of the pod can change at any time.
#[test]
fn a_link_in_a_volume_lets_no_volume_bring_its_own_dev() {
    for variant in variants() {
        let host = HostDir::new();
        let mut attacker = variant.container(&["/bin/sleep", "1000"]);
        let (first, second) = (volume(&attacker, "first"), volume(&attacker, "second"));
        symlink("/", first.join("a")).unwrap();
        symlink(host.path(), second.join("dev")).unwrap();
        attacker.container.job.start.mounts.extend([bind(&first, "/data"), bind(&second, "/data/a")]);
        attacker.run();
        host.is_untouched(&variant);
        if is_built_in(&variant) {
            assert!(attacker.container.init.is_none(), "{variant:?}");
        }
    }
}

/// A device below a volume was made by path, in whatever directory the volume's link led to.
#[test]
fn a_device_below_a_volume_is_never_made_on_the_host() {
    for variant in variants() {
        let host = HostDir::new();
        let mut attacker = variant.container(&["/bin/sleep", "1000"]);
        let volume = volume(&attacker, "volume");
        symlink(host.path(), volume.join("d")).unwrap();
        attacker.container.job.start.mounts.push(bind(&volume, "/dev/volume"));
        attacker.container.job.start.devices.push(Device {
            source: "/dev/null".into(),
            target: "/dev/volume/d/node".into(),
            access: "rw".into(),
            owner: NodeOwner::Host,
        });
        attacker.run();
        host.is_untouched(&variant);
    }
}

/// A label was written to whatever file the image had put in the place of the kernel's.
#[test]
fn nothing_is_mounted_in_the_place_of_the_kernels_files() {
    for variant in variants() {
        for target in ["/proc/thread-self/attr", "/proc", "/proc/sys/kernel", "/sys/kernel", "/sys"] {
            let mut attacker = variant.container(&["/bin/sleep", "1000"]);
            let source = attacker.container.path("volumes");
            attacker.container.job.start.volumes =
                vec![ImageVolume { source: source.join("0"), target: target.into() }];
            let what = refused(&mut attacker, &variant);
            assert!(what.contains(target), "{variant:?} {what}");

            let mut attacker = variant.container(&["/bin/sleep", "1000"]);
            let volume = volume(&attacker, "volume");
            attacker.container.job.start.mounts.push(bind(&volume, target));
            let what = refused(&mut attacker, &variant);
            assert!(what.contains(target), "{variant:?} {what}");
        }
    }
}

#[test]
fn no_link_of_the_image_leads_a_mount_to_the_kernels_files() {
    for variant in variants().filter(is_built_in) {
        for (link, target) in
            [("/proc", "/link/thread-self/attr"), ("/proc", "/link"), ("/sys", "/link/kernel")]
        {
            let mut attacker = variant.container(&["/bin/sleep", "1000"]);
            symlink(link, attacker.container.layer().join("link")).unwrap();
            let volume = volume(&attacker, "volume");
            attacker.container.job.start.mounts.push(bind(&volume, target));
            let what = refused(&mut attacker, &variant);
            assert!(what.contains(target), "{variant:?} {what}");
        }
    }
}

/// Node exporters and CSI drivers mount the host's `/dev`. The engine made its links in it, and failed.
#[test]
fn a_dev_of_the_pods_own_is_shown_as_it_is() {
    // Other engines make the terminal in this very directory, which has no /dev/ptmx here.
    for variant in variants().filter(|one| is_built_in(one) || one.console == Console::Pipes) {
        let mut attacker = variant.container(&["/bin/sleep", "1000"]);
        let host = attacker.container.path("host-dev");
        fs::create_dir(&host).unwrap();
        fs::set_permissions(&host, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["null", "marker"] {
            let made = std::process::Command::new("mknod")
                .arg(host.join(name))
                .args(["-m", "666", "c", "1", "3"])
                .status()
                .unwrap();
            assert!(made.success());
        }
        let mounts = &mut attacker.container.job.start.mounts;
        mounts.retain(|mount| !mount.target().starts_with("/dev"));
        mounts.push(bind(&host, "/dev"));
        let answer = attacker.run();
        assert!(attacker.container.init.is_some(), "{variant:?}: {answer}");
        let init = attacker.container.init.unwrap();
        let seen = names(Path::new(&format!("/proc/{init}/root/dev")));
        assert!(seen.contains(&"marker".to_owned()), "{variant:?}: {seen:?}");
        if is_built_in(&variant) {
            assert_eq!(names(&host), ["marker", "null"], "{variant:?}");
        }
        attacker.container.delete_and_look();
    }
}

/// With a terminal, the engine made /dev/console by path: a link there is the pod's to choose.
#[test]
fn a_console_in_a_dev_of_the_pods_own_leads_nowhere() {
    for variant in variants().filter(|one| one.console == Console::Terminal) {
        let host = HostDir::new();
        let mut attacker = variant.container(&["/bin/sleep", "1000"]);
        let volume = volume(&attacker, "volume");
        symlink(host.path().join("console"), volume.join("console")).unwrap();
        symlink(host.path().join("fd"), volume.join("fd")).unwrap();
        let mounts = &mut attacker.container.job.start.mounts;
        mounts.retain(|mount| !mount.target().starts_with("/dev"));
        mounts.push(bind(&volume, "/dev"));
        attacker.run();
        host.is_untouched(&variant);
    }
}

#[test]
fn a_missing_working_directory_is_made_inside() {
    for variant in variants() {
        let host = HostDir::new();
        let mut attacker = variant.container(&["/bin/sleep", "1000"]);
        symlink(host.path(), attacker.container.layer().join("link")).unwrap();
        attacker.container.job.start.process.cwd = "/work/here".into();
        let answer = attacker.run();
        let init = attacker.container.init.unwrap_or_else(|| panic!("{variant:?}: {answer}"));
        let cwd = fs::read_link(format!("/proc/{init}/cwd")).unwrap();
        assert!(cwd.ends_with("work/here"), "{variant:?}: {}", cwd.display());
        attacker.container.delete_and_look();

        let mut attacker = variant.container(&["/bin/sleep", "1000"]);
        symlink(host.path(), attacker.container.layer().join("link")).unwrap();
        attacker.container.job.start.process.cwd = "/link/here".into();
        attacker.run();
        host.is_untouched(&variant);
    }
}

#[test]
fn no_working_directory_is_reached_through_a_descriptor() {
    for variant in variants().filter(is_built_in) {
        for fd in 3..25 {
            for through in ["cwd", "link"] {
                let mut attacker = variant.container(&["/bin/sleep", "1000"]);
                let to = format!("/proc/self/fd/{fd}/1/root");
                symlink(&to, attacker.container.layer().join("link")).unwrap();
                attacker.container.job.start.process.cwd =
                    if through == "cwd" { to.into() } else { "/link".into() };
                refused(&mut attacker, &variant);
            }
            if variant.users != Users::Host || variant.console != Console::Pipes {
                break;
            }
        }
    }
}

#[test]
fn a_masked_path_behind_a_link_is_refused() {
    for variant in variants().filter(is_built_in) {
        let mut attacker = variant.container(&["/bin/sleep", "1000"]);
        symlink("/proc/self/fd", attacker.container.layer().join("link")).unwrap();
        attacker.container.job.start.masked_paths.push("/link/7".into());
        let what = refused(&mut attacker, &variant);
        assert!(what.contains("/link/7"), "{what}");
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What attaching by descriptor must not break: mount points that are missing in an idmapped volume, where the host's root
/// can make nothing, and links of the image to what is not there.
#[test]
fn missing_mount_points_are_made_by_the_containers_root() {
    for variant in variants().filter(|one| one.console == Console::Pipes) {
        let mut attacker = variant.container(&["/bin/sleep", "1000"]);
        let ids = attacker.container.job.start.ids.clone();
        let (first, second) = (volume(&attacker, "first"), volume(&attacker, "second"));
        let file = attacker.container.path("file");
        fs::write(&file, "of the pod").unwrap();
        let layer = attacker.container.layer();
        symlink("../run/resolve/stub", layer.join("etc/resolv.conf")).unwrap();
        symlink("/run", layer.join("var-run")).unwrap();
        let mapped = |source: &Path, target: &str| match bind(source, target) {
            MountSpec::Bind(bind) => MountSpec::Bind(Bind { ids: ids.clone(), ..bind }),
            other => other,
        };
        let start = &mut attacker.container.job.start;
        start.mounts.extend([
            mapped(&first, "/data"),
            mapped(&second, "/data/new/dir"),
            mapped(&file, "/data/file"),
            mapped(&file, "/var-run/secrets/token"),
        ]);
        start.process.cwd = "/data/work/here".into();
        // Debian's runc cannot do this.
        if is_built_in(&variant) {
            start.mounts.push(mapped(&file, "/etc/resolv.conf"));
        }
        let answer = attacker.run();
        let init = attacker.container.init.unwrap_or_else(|| panic!("{variant:?}: {answer}"));
        let root = PathBuf::from(format!("/proc/{init}/root"));
        for path in ["data/file", "run/secrets/token"] {
            assert_eq!(fs::read_to_string(root.join(path)).unwrap(), "of the pod", "{variant:?} {path}");
        }
        if is_built_in(&variant) {
            assert_eq!(fs::read_to_string(root.join("run/resolve/stub")).unwrap(), "of the pod");
        }
        for path in ["new", "new/dir", "file", "work", "work/here"] {
            let found = fs::metadata(first.join(path)).unwrap();
            assert_eq!((found.uid(), found.gid()), (0, 0), "{variant:?} {path}");
        }
        attacker.container.delete_and_look();
    }
}
