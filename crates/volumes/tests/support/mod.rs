//! A node to set up volumes on, and processes that look at them from inside.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ids::{ContainerId, IdBlock, UserNamespace};
use kernel::{Dir, IdMaps, Kernel, Live, MountTable, Owner};
use plan::Owners;
use volumes::kinds::{EmptyDir, HostPath, HostPathType, ImageTree, Written, WrittenKind};
use volumes::payload::{self, ConfigMap, KeyToPath, Mode, Need, Object, Payload, PodFields, Secret};
use volumes::sub_path::SubPath;
use volumes::{
    ContainerName, MountAccess, PodUid, PodVolumes, Presented, Source, VolumeName, Wanted, WantedMount,
    WantedVolume,
};

/// The first host ID of the first pod's block.
pub const BASE: u32 = 1_073_741_824;
pub const LENGTH: u32 = 65_536;

/// The block of the n-th pod.
pub fn block(n: u32) -> IdBlock {
    IdBlock::new((BASE + n * LENGTH).into(), LENGTH.into()).unwrap()
}

pub fn users(n: u32) -> UserNamespace {
    UserNamespace::Leased { uids: block(n), gids: block(n) }
}

pub fn id(n: u64) -> ContainerId {
    ContainerId::try_from(n).unwrap()
}

pub fn name(name: &str) -> VolumeName {
    VolumeName::new(name).unwrap()
}

/// A directory whose removal never goes through a mount: volumes of tests can be anything of the host's,
/// its root included, and `TempDir` would delete that.
struct Home(PathBuf);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir_in("/var/tmp").unwrap().keep())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let parent = Dir::open(self.0.parent().unwrap()).unwrap();
        let mut mounts: Vec<PathBuf> =
            MountTable::read().unwrap().below(&self.0).map(|mount| mount.point.clone()).collect();
        mounts.sort_by_key(|point| std::cmp::Reverse(point.as_os_str().len()));
        for point in mounts {
            // A mount that stays makes the removal below fail, and leaves all as it is.
            let _ = kernel::unmount(&point, kernel::Unmount::Lazy);
        }
        let removed = parent.remove_tree(self.0.file_name().unwrap());
        if !std::thread::panicking() {
            removed.unwrap();
        }
    }
}

/// A node's directories, gone with this.
pub struct Node {
    home: Home,
    pub kernel: Arc<Live>,
    pub volumes: PodVolumes,
}

impl Node {
    /// On the disk that the machine has.
    pub fn new() -> Self {
        let home = Home::new();
        // Processes of pods come through here.
        std::fs::set_permissions(home.0.as_path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(home.0.as_path().join("state")).unwrap();
        Self::over(home)
    }

    fn over(home: Home) -> Self {
        let kernel = Arc::new(Live::new());
        let volumes =
            PodVolumes::open(&home.0.as_path().join("state"), Arc::clone(&kernel) as Arc<_>).unwrap();
        Self { home, kernel, volumes }
    }

    /// The same with the state directory on a filesystem that is mounted there first.
    pub fn with_state(mount: impl FnOnce(&Path)) -> Self {
        let home = Home::new();
        std::fs::set_permissions(home.0.as_path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let state = home.0.as_path().join("state");
        std::fs::create_dir(&state).unwrap();
        mount(&state);
        Self::over(home)
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.home.0.as_path().join(below)
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// A new directory for things of the host's, open to all.
    pub fn dir(&self, below: &str) -> PathBuf {
        let path = self.path(below);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A mount attached below a container's tree, which is returned: `/data` is `TREE/data` from here.
    pub fn attach(&self, presented: Presented, tree: &str) -> PathBuf {
        let tree = self.dir(tree);
        let at = tree.join(presented.path.strip_prefix("/").unwrap());
        presented.attach(&*self.kernel, &Dir::open(&tree).unwrap(), Owner::ROOT).unwrap();
        at
    }

    /// Sets up the pod, and attaches what the mount shows below `tree`.
    pub fn show(&self, wanted: &Wanted, mount: &WantedMount, tree: &str) -> PathBuf {
        self.volumes.set_up(wanted).unwrap();
        self.attach(self.volumes.present(wanted, mount).unwrap(), tree)
    }

    /// What a shell script says that runs in the pod's user namespace as this user and group.
    pub fn inside(&self, wanted: &Wanted, who: (u32, u32), script: &str) -> String {
        let ids::UserNamespace::Leased { uids, .. } = &wanted.users else { panic!("no block") };
        let userns = self.kernel.user_namespace(&IdMaps::of_block(*uids)).unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), userns.as_fd().as_raw_fd());
        let mut command = Command::new("nsenter");
        command.arg(format!("--user={path}")).args(["-S", &who.0.to_string(), "-G", &who.1.to_string()]);
        let done = command.args(["--", "/bin/sh", "-c", script]).current_dir("/").output().unwrap();
        let (said, complained) = (text(&done.stdout), text(&done.stderr));
        format!("{said}{complained}").trim_end().to_owned()
    }

    /// Owner, group and mode as the pod's root sees them.
    pub fn seen(&self, wanted: &Wanted, path: &Path) -> String {
        self.inside(wanted, (0, 0), &format!("stat -L -c '%u:%g %a' {}", path.display()))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Owner, group and mode as the host has them.
pub fn on_host(path: &Path) -> String {
    let meta = std::fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    format!("{}:{} {:o}", meta.uid(), meta.gid(), meta.mode() & 0o7777)
}

pub fn wanted(pod: &str, block: u32, volumes: Vec<WantedVolume>) -> Wanted {
    Wanted { pod: PodUid::new(pod).unwrap(), users: users(block), fs_group: None, volumes }
}

pub fn volume(of: &str, owners: Owners, source: Source) -> WantedVolume {
    WantedVolume { name: name(of), owners, source }
}

pub fn idmapped(of: &str, source: Source) -> WantedVolume {
    volume(of, Owners::Idmapped, source)
}

pub fn empty_dir() -> Source {
    Source::EmptyDir(EmptyDir::default())
}

pub fn host_path(path: &Path, kind: HostPathType) -> Source {
    Source::HostPath(HostPath { path: path.to_owned(), kind })
}

pub fn image(layers: &[PathBuf]) -> Source {
    Source::Image(ImageTree { layers: layers.to_vec(), reference: "registry.test/data:1".to_owned() })
}

pub fn mount(of: &str, path: &str) -> WantedMount {
    WantedMount {
        container: ContainerName::new("main").unwrap(),
        index: 0,
        volume: name(of),
        path: path.into(),
        sub_path: None,
        access: MountAccess::ReadWrite,
        propagation: plan::MountPropagation::None,
        relabel: volumes::Relabel::No,
    }
}

pub fn part(of: &str, path: &str, sub_path: &str) -> WantedMount {
    WantedMount { sub_path: SubPath::new(sub_path).unwrap(), ..mount(of, path) }
}

type Keys<'a> = &'a [(&'a str, &'a str)];

/// A ConfigMap with these keys; none of that name without.
pub fn config(keys: Option<Keys<'_>>, items: &[KeyToPath], need: Need) -> payload::Source {
    let data = |keys: Keys<'_>| keys.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let found = keys.map(|keys| ConfigMap { data: data(keys), ..ConfigMap::default() });
    payload::Source::ConfigMap(Object { name: "settings".to_owned(), found, items: items.to_vec(), need })
}

/// A Secret with these keys.
pub fn secret(keys: Keys<'_>, items: &[KeyToPath]) -> payload::Source {
    let data = keys.iter().map(|(k, v)| ((*k).to_owned(), (*v).as_bytes().to_vec())).collect();
    let found = Some(Secret { data, ..Secret::default() });
    payload::Source::Secret(Object {
        name: "keys".to_owned(),
        found,
        items: items.to_vec(),
        need: Need::Required,
    })
}

pub fn item(key: &str, path: &str, mode: Option<u32>) -> KeyToPath {
    KeyToPath { key: key.to_owned(), path: path.to_owned(), mode: mode.map(|m| Mode::new(m).unwrap()) }
}

/// A volume of files from these sources. The pod has annotations that say their own names.
pub fn written(kind: WrittenKind, default_mode: u32, sources: Vec<payload::Source>) -> Source {
    let default_mode = Mode::new(default_mode).unwrap();
    let volume = payload::Volume { name: "v".to_owned(), default_mode, sources };
    let annotations = ["old", "new"].map(|text| (text.to_owned(), text.to_owned())).into();
    let (name, namespace) = ("web-0".to_owned(), "shop".to_owned());
    let pod = PodFields { name, namespace, annotations, ..PodFields::default() };
    Source::Written(Written { kind, payload: Payload::of(&volume, &pod).unwrap() })
}

/// A ConfigMap volume with these keys.
pub fn config_map(keys: Keys<'_>) -> Source {
    written(WrittenKind::ConfigMap, 0o644, vec![config(Some(keys), &[], Need::Required)])
}

/// The mounts below a path, in the mount namespace of the caller.
pub fn mounts_below(path: &Path) -> Vec<PathBuf> {
    MountTable::read().unwrap().under(path).map(|m| m.point.clone()).collect()
}

pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs `body` where its mounts cannot reach the host.
pub fn alone(body: impl FnOnce() + Send) {
    kernel::in_private_mount_namespace(|_| body()).unwrap();
}

/// Runs `work` while `race` is repeated as fast as it can be; the race ends with it, also if it panics.
/// `race` tells whether it did anything. The work begins when it has; how often it had is returned.
pub fn raced<T>(race: impl Fn() -> bool + Sync, work: impl FnOnce() -> T) -> (T, u64) {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (stop, times) = (AtomicBool::new(false), AtomicU64::new(0));
    let outcome = std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let racing = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                times.fetch_add(race().into(), Ordering::Relaxed);
            }
        });
        while times.load(Ordering::Relaxed) == 0 && !racing.is_finished() {
            std::thread::yield_now();
        }
        work()
    });
    (outcome, times.into_inner())
}
