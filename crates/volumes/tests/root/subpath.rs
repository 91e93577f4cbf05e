//! Parts of volumes: what may be on the way, and what races on it. Needs root.
//!
//! The races are those of CVE-2017-1002101 and CVE-2021-25741 (a link put on the way of a subPath between
//! its check and its use), CVE-2021-30465 and CVE-2018-15664 (the same for the place in the container that
//! something is mounted to). Each is run against a function of the test's own, too, that checks and then
//! uses a path: that one is led outside, so the race is real.

use crate::support;

use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use kernel::{DetachedMount, Dir, DirMode, MountTable, Node as Held, Owner, Submounts};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use support::*;
use testkit::Race;
use volumes::kinds::HostPathType;
use volumes::sub_path::{Missing, SubPath, resolve};
use volumes::{Error, MountAccess, Result, WantedMount};

/// Tries of a race: 10 000 in a soak of 50 rounds.
fn tries() -> usize {
    (200 * testkit::rounds()).min(10_000)
}

/// How often the naive function is tried until it is led astray.
const PATIENCE: usize = 200_000;

/// A volume with `good` in it, and something outside, both in one directory.
struct Scene {
    node: Node,
    root: PathBuf,
    outside: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let node = Node::new();
        let (root, outside) = (node.dir("volume"), node.dir("outside"));
        std::fs::create_dir(root.join("good")).unwrap();
        std::fs::write(root.join("good/file"), "inside").unwrap();
        std::fs::write(outside.join("file"), "outside").unwrap();
        // `bad` is what takes the place of `good` in a race.
        symlink(&outside, root.join("bad")).unwrap();
        Self { node, root, outside }
    }

    fn resolve(&self, path: &str, missing: Missing<'_>) -> Result<Held> {
        let root = Dir::open(&self.root).unwrap();
        resolve(&name("v"), &root, &SubPath::new(path).unwrap().unwrap(), missing)
    }

    /// Runs `work` while `good` and `bad` change places as fast as they can; `good` is itself afterwards.
    fn raced<T>(&self, work: impl FnOnce(&AtomicU64) -> T) -> T {
        let (good, bad, swaps) = (self.root.join("good"), self.root.join("bad"), AtomicU64::new(0));
        let swap = || {
            renameat_with(CWD, &good, CWD, &bad, RenameFlags::EXCHANGE).unwrap();
            swaps.fetch_add(1, Ordering::Relaxed);
            true
        };
        let (outcome, times) = raced(swap, || work(&swaps));
        println!("{times} swaps");
        assert!(times > 0, "nothing was raced");
        if good.is_symlink() {
            swap();
        }
        outcome
    }
}

fn ino(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

#[test]
fn links_inside_a_volume_are_followed_and_those_that_leave_it_are_refused() {
    let scene = Scene::new();
    let at = |name: &str| scene.root.join(name);
    symlink("good", at("relative")).unwrap();
    symlink("../volume/good", at("out-and-back")).unwrap();
    symlink("/", at("absolute")).unwrap();
    symlink("../../..", at("up")).unwrap();
    symlink("/proc/self/root", at("magic")).unwrap();
    symlink("/proc/self/cwd", at("magic2")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("loop", at("loop")).unwrap();
    let node = scene.resolve("relative/file", Missing::Refuse).unwrap();
    assert_eq!(node.stat().unwrap().ino, ino(&at("good/file")));
    for bad in ["bad", "absolute", "up", "out-and-back", "magic", "magic2", "absolute/etc", "bad/file"] {
        let error = scene.resolve(bad, Missing::Refuse).unwrap_err();
        assert!(matches!(error, Error::Escapes { .. }), "{bad}: {error}");
        assert!(error.hint().is_some());
    }
    for bad in ["loop", "dangling", "missing", "good/file/below"] {
        let error = scene.resolve(bad, Missing::Refuse).unwrap_err();
        assert!(matches!(error, Error::SubPath { .. }), "{bad}: {error}");
    }
    for path in ["..", "/etc", "good/../..", "a/../../b"] {
        assert!(SubPath::new(path).is_err(), "{path}");
    }
}

/// Nothing is announced to anybody in these tests.
fn unheard(_: &Dir, _: &Path) -> Result<()> {
    Ok(())
}

fn make(announce: &mut dyn FnMut(&Dir, &Path) -> Result<()>) -> Missing<'_> {
    Missing::Make { like: DirMode { mode: 0o2771, owner: Some(Owner { uid: 5, gid: 6 }) }, announce }
}

#[test]
fn what_is_missing_is_made_inside_and_never_through_a_link_that_leaves() {
    let scene = Scene::new();
    symlink("good", scene.root.join("relative")).unwrap();
    symlink(scene.outside.join("new"), scene.root.join("dangling")).unwrap();
    scene.resolve("relative/a/b", make(&mut unheard)).unwrap();
    for made in ["good/a", "good/a/b"] {
        assert_eq!(on_host(&scene.root.join(made)), "5:6 2771");
    }
    for bad in ["bad/new", "dangling", "dangling/new"] {
        scene.resolve(bad, make(&mut unheard)).unwrap_err();
    }
    assert_eq!(std::fs::read_dir(&scene.outside).unwrap().count(), 1, "something was made outside");
}

#[test]
fn a_racing_link_never_leads_a_sub_path_outside() {
    let scene = Scene::new();
    let inside = [ino(&scene.root.join("good/file"))];
    let (mut found, mut refused) = (0, 0);
    scene.raced(|_| {
        while found + refused < tries() || found == 0 || refused == 0 {
            match scene.resolve("good/file", Missing::Refuse) {
                Ok(node) => {
                    assert!(inside.contains(&node.stat().unwrap().ino), "led outside");
                    found += 1;
                }
                Err(Error::Escapes { .. } | Error::SubPath { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
    });
    println!("{found} resolved inside, {refused} refused");
}

#[test]
fn a_racing_link_never_makes_a_directory_outside() {
    let scene = Scene::new();
    let (mut made, mut refused) = (0, 0);
    scene.raced(|_| {
        let mut number = 0;
        while number < tries() || made == 0 || refused == 0 {
            number += 1;
            match scene.resolve(&format!("good/new{number}/below"), make(&mut unheard)) {
                Ok(_) => made += 1,
                Err(_) => refused += 1,
            }
        }
    });
    println!("{made} made inside, {refused} refused");
    assert_eq!(std::fs::read_dir(&scene.outside).unwrap().count(), 1, "something was made outside");
    assert_eq!(on_host(&scene.outside), "0:0 755", "something outside was given away");
}

/// Upstream's way before its first fix: resolve, check, use the path again.
fn naive_resolve(root: &Path, path: &str) -> Option<u64> {
    let real = root.join(path).canonicalize().ok()?;
    if !real.starts_with(root) {
        return None;
    }
    Some(std::fs::metadata(root.join(path)).ok()?.ino())
}

#[test]
fn a_racing_link_leads_a_naive_sub_path_outside() {
    let scene = Scene::new();
    let outside = ino(&scene.outside.join("file"));
    let led =
        scene.raced(|_| (0..PATIENCE).find(|_| naive_resolve(&scene.root, "good/file") == Some(outside)));
    println!("led outside at try {led:?}");
    assert!(led.is_some(), "the race is not real");
}

/// What is mounted is what was found, whatever is put in its place before it is mounted.
#[test]
fn a_racing_link_never_leads_a_presented_part_outside() {
    alone(|| {
        let scene = Scene::new();
        let source = host_path(&scene.root, HostPathType::Directory);
        let pod = wanted("race", 1, vec![idmapped("v", source)]);
        scene.node.volumes.set_up(&pod).unwrap();
        let inside = ino(&scene.root.join("good"));
        let mut shown = 0;
        scene.raced(|_| {
            let mut race = Race::of(tries());
            while race.goes_on(shown > 0) {
                let mut mount = part("v", "/data", "good");
                if shown % 2 == 1 {
                    mount.access = MountAccess::ReadOnly;
                }
                if let Ok(presented) = scene.node.volumes.present(&pod, &mount) {
                    let root = presented.into_mount().root().unwrap();
                    assert_eq!(root.stat().unwrap().ino, inside, "led outside");
                    shown += 1;
                }
            }
        });
        println!("{shown} shown");
        assert!(shown > 0);
        scene.node.volumes.tear_down(&pod.pod).unwrap();
    });
}

#[test]
fn a_racing_link_never_leads_a_part_for_a_foreign_runtime_outside() {
    alone(|| {
        let scene = Scene::new();
        let source = host_path(&scene.root, HostPathType::Directory);
        let pod = wanted("race", 1, vec![idmapped("v", source)]);
        scene.node.volumes.set_up(&pod).unwrap();
        let inside = ino(&scene.root.join("good"));
        let mut shown = 0;
        scene.raced(|_| {
            let mut race = Race::of(tries().min(500));
            while race.goes_on(shown > 0) {
                let mount = WantedMount { index: race.round() % 3, ..part("v", "/data", "good") };
                if let Ok(host) = scene.node.volumes.host_mount(&pod, &mount) {
                    assert_eq!(ino(&host.host_path), inside, "led outside");
                    shown += 1;
                }
            }
        });
        assert!(shown > 0);
        assert!(mounts_below(&scene.node.state()).len() <= 3);
        scene.node.volumes.tear_down(&pod.pod).unwrap();
        assert!(mounts_below(&scene.node.state()).is_empty());
    });
}

/// Where the mounts are that lie below one of two directories.
fn landed(path: &Path) -> usize {
    MountTable::read().unwrap().under(path).count()
}

/// The container's tree is the scene's volume here: `good` is where something is mounted to.
#[test]
fn a_racing_link_never_leads_a_mount_out_of_a_containers_tree() {
    alone(|| {
        let scene = Scene::new();
        let pod = wanted("race", 1, vec![idmapped("v", empty_dir())]);
        scene.node.volumes.set_up(&pod).unwrap();
        let tree = Dir::open(&scene.root).unwrap();
        // A mount point cannot be renamed, so only the way to it is raced.
        let mount = mount("v", "/good/data");
        let mut attached = 0;
        let mut race = Race::of(tries().min(400));
        while race.goes_on(attached > 0) {
            let presented = scene.node.volumes.present(&pod, &mount).unwrap();
            let outcome = scene.raced(|swaps| {
                let before = swaps.load(Ordering::Relaxed);
                while swaps.load(Ordering::Relaxed) == before {}
                presented.attach(&*scene.node.kernel, &tree, Owner::ROOT)
            });
            assert_eq!(landed(&scene.outside), 0, "mounted outside in round {}", race.round());
            attached += usize::from(outcome.is_ok());
            for point in mounts_below(&scene.root) {
                kernel::unmount(&point, kernel::Unmount::Lazy).unwrap();
            }
        }
        println!("{attached} attached inside");
        assert!(attached > 0);
        assert!(!scene.outside.join("data").exists(), "a mount point was made outside");
        scene.node.volumes.tear_down(&pod.pod).unwrap();
    });
}

/// Upstream's way: make the mount point, check where it is, mount by its path.
fn naive_attach(tree: &Path, mount: DetachedMount) -> Option<()> {
    let point = tree.join("good/data");
    std::fs::create_dir_all(&point).ok()?;
    point.canonicalize().ok().filter(|real| real.starts_with(tree))?;
    // Far less than it takes to start mount(8).
    std::thread::sleep(std::time::Duration::from_micros(50));
    mount.attach(&point).ok()
}

#[test]
fn a_racing_link_leads_a_naive_mount_out_of_a_containers_tree() {
    alone(|| {
        let scene = Scene::new();
        let source = scene.node.dir("source");
        let source = Dir::open(&source).unwrap();
        let led = scene.raced(|_| {
            (0..PATIENCE).find(|_| {
                let from = kernel::Source::Node(source.as_fd());
                let clone = DetachedMount::clone_of(from, Submounts::Without).unwrap();
                let _ = naive_attach(&scene.root, clone);
                let outside = landed(&scene.outside) > 0;
                // The thread that races may have moved it since it was looked for.
                while let Some(point) = mounts_below(&scene.node.path("")).pop() {
                    let _ = kernel::unmount(&point, kernel::Unmount::Lazy);
                }
                outside
            })
        });
        println!("led outside at try {led:?}");
        assert!(led.is_some(), "the race is not real");
    });
}
