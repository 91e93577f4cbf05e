//! What a container finds that an OCI runtime was given our configuration for. Needs root and Debian's runc.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use cgroups::{Group, Hierarchies};
use container::capabilities::{self, RequestedCapabilities};
use container::defaults::{self, Privilege};
use container::prepare::{Stage, from_host, prepare_rootfs};
use container::{
    Bind, ContainerSpec, Device, ImageVolume, MountPropagation, MountSpec, NamespaceSpec, NodeOwner, Owners,
    ReadOnly, Seccomp, WantedUser, seccomp, spec, sysctl,
};
use kernel::{Live, MountTable, in_private_mount_namespace};
use rustix::fs::{CWD, FileType, makedev, mknodat};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

/// A container's directory and its control group, which is emptied and removed whatever happens.
struct Place {
    dir: tempfile::TempDir,
    group: Group,
    id: String,
}

impl Place {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let id = format!("wardlet-runc-{}-{number}", std::process::id());
        let group = Group::open(&Hierarchies::find().unwrap(), &format!("/{id}")).unwrap();
        Self { dir: tempfile::tempdir_in("/var/tmp").unwrap(), group, id }
    }

    /// A container of busybox that runs `script`, with all that every container has.
    fn start(&self, user: NamespaceSpec, script: &str) -> ContainerSpec {
        let mut start = support::start(self.dir.path());
        start.id.clone_from(&self.id);
        start.cgroup.path = format!("/{}", self.id);
        start.namespaces = support::spaces(user);
        if start.namespaces.user == NamespaceSpec::Host {
            start.ids = None;
        }
        start.mounts = defaults::mounts(&start.namespaces, start.ids.as_ref(), Privilege::Usual);
        start.masked_paths = defaults::masked_paths();
        start.read_only_paths = defaults::read_only_paths();
        start.process.seccomp =
            Seccomp::Profile(Box::new(seccomp::runtime_default(&start.process.capabilities)));
        start.process.args = ["/bin/busybox", "sh", "-c", script].map(str::to_owned).into();
        let bin = start.rootfs.lowers[0].join("bin");
        fs::create_dir_all(&bin).unwrap();
        fs::copy("/bin/busybox", bin.join("busybox")).unwrap();
        for name in ["sh", "cat", "id", "ls", "stat", "head", "od", "mount", "unshare", "ping", "touch"] {
            std::os::unix::fs::symlink("busybox", bin.join(name)).unwrap();
        }
        start
    }

    /// Runs it to its end; what it said.
    fn run(&self, start: &ContainerSpec) -> String {
        let dir = self.dir.path();
        let (stage, bundle) = (dir.join("stage"), dir.join("bundle"));
        fs::create_dir_all(&stage).unwrap();
        fs::create_dir_all(&bundle).unwrap();
        // The container's root passes through it, and is nobody here.
        for passed in [dir, &stage] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(passed, mode).unwrap();
        }
        let kernel = Live::default();
        let held = from_host(&kernel, start).unwrap();
        let output = in_private_mount_namespace(|namespace| {
            let made = prepare_rootfs(&kernel, start, held, Stage { dir: &stage, namespace }).unwrap();
            let config = serde_json::to_vec(&spec::of(start, &made.ready)).unwrap();
            fs::write(bundle.join("config.json"), config).unwrap();
            let mut runc = Command::new("/usr/sbin/runc");
            runc.arg("--root").arg(dir.join("runc")).arg("run").arg("--bundle").arg(&bundle).arg(&self.id);
            runc.stdin(std::process::Stdio::null()).output().unwrap()
        })
        .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.group.kill_all();
        let _ = self.group.remove();
    }
}

fn device(source: &str, target: &str, access: &str) -> Device {
    let owner = NodeOwner::Container;
    Device { source: source.into(), target: target.into(), access: access.into(), owner }
}

fn both(check: impl Fn(NamespaceSpec)) {
    [NamespaceSpec::New, NamespaceSpec::Host].into_iter().for_each(check);
}

#[test]
fn a_user_of_the_image_runs_at_home_with_its_groups_under_the_default_profile() {
    both(|user| {
        let place = Place::new();
        let script = "id -u; id -g; id -G; echo $HOME; cat /proc/self/status | grep Seccomp:; ls /proc/acpi /sys/firmware";
        let mut start = place.start(user, &script.replace("grep", "/bin/busybox grep"));
        let etc = start.rootfs.lowers[0].join("etc");
        fs::create_dir(&etc).unwrap();
        fs::write(etc.join("passwd"), "ann:x:1000:100::/home/ann:/bin/sh\n").unwrap();
        fs::write(etc.join("group"), "wheel:x:10:ann\n").unwrap();
        start.process.user =
            WantedUser { name: Some("ann".into()), groups: vec![3000], ..Default::default() };
        let said = place.run(&start);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[..4], ["1000", "100", "100 10 3000", "/home/ann"], "{said}");
        assert_eq!(lines[4].split_whitespace().collect::<Vec<_>>(), ["Seccomp:", "2"]);
        let listed: Vec<_> = lines[5..].iter().filter(|l| !l.is_empty() && !l.ends_with(':')).collect();
        assert!(listed.is_empty(), "{said}");
    });
}

#[test]
fn a_new_user_namespace_is_made_only_with_the_capability_for_it() {
    let place = Place::new();
    let script = "unshare -U true 2>/dev/null && echo made || echo refused";
    assert_eq!(place.run(&place.start(NamespaceSpec::New, script)), "refused");
    let place = Place::new();
    let mut start = place.start(NamespaceSpec::New, script);
    let asked = RequestedCapabilities { add: vec!["SYS_ADMIN".into()], ..RequestedCapabilities::default() };
    start.process.capabilities = capabilities::of(&asked).unwrap();
    start.process.seccomp = Seccomp::Profile(Box::new(seccomp::runtime_default(&start.process.capabilities)));
    assert_eq!(place.run(&start), "made");
}

#[test]
fn a_device_can_be_used_and_others_cannot() {
    both(|user| {
        let place = Place::new();
        let script = "head -c 2 /dev/given | od -An -tx1; head -c 1 /dev/null | od -An -c; \
                      head -c 1 /dev/kmsg 2>/dev/null || echo none; \
                      busybox mknod /tmp/full c 1 7 2>/dev/null; head -c 1 /tmp/full 2>/dev/null || echo none";
        let mut start = place.start(user, &script.replace("busybox", "/bin/busybox"));
        start.devices = vec![device("/dev/zero", "/dev/given", "r")];
        let said = place.run(&start);
        let words: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(words, ["00", "00", "none", "none"], "{said}");
    });
}

/// Nodes can be made in the container's own `/dev`; it is the control group that keeps them shut.
#[test]
fn a_device_opens_only_as_it_was_given_and_one_that_was_not_given_not_at_all() {
    both(|user| {
        let place = Place::new();
        let script = "(: </dev/given) 2>/dev/null && echo read; \
                      (: >>/dev/given) 2>/dev/null || echo not written; \
                      /bin/busybox mknod /dev/mine c 1 11 2>/dev/null; (: </dev/mine) 2>/dev/null || echo shut";
        let mut start = place.start(user, script);
        start.devices = vec![device("/dev/fuse", "/dev/given", "r")];
        assert_eq!(place.run(&start).lines().collect::<Vec<_>>(), ["read", "not written", "shut"]);
    });
}

/// What a privileged container of a user namespace gets of a disk.
#[test]
fn the_root_of_a_user_namespace_cannot_open_a_device_that_stayed_the_hosts() {
    let nodes = tempfile::tempdir_in("/var/tmp").unwrap();
    let disk = nodes.path().join("disk");
    mknodat(CWD, &disk, FileType::CharacterDevice, 0o660.into(), makedev(1, 5)).unwrap();
    let said = |owner| {
        let place = Place::new();
        let mut start =
            place.start(NamespaceSpec::New, "(: </dev/given/disk) 2>/dev/null && echo open || echo shut");
        start.process.capabilities = container::capabilities::all();
        let given = device(nodes.path().to_str().unwrap(), "/dev/given", "rwm");
        start.devices = vec![Device { owner, ..given }];
        place.run(&start)
    };
    assert_eq!(said(NodeOwner::Host).trim(), "shut");
    assert_eq!(said(NodeOwner::Container).trim(), "open");
}

#[test]
fn all_devices_of_the_host_can_be_given_and_terminals_stay_the_containers_own() {
    both(|user| {
        let place = Place::new();
        let script = "head -c 1 /dev/full | od -An -tx1; head -c 1 /dev/zero | od -An -tx1; \
                      stat -c %t:%T /dev/full; ls -l /dev/ptmx";
        let mut start = place.start(user, script);
        start.devices = vec![Device { owner: NodeOwner::Host, ..device("/dev", "/dev", "rwm") }];
        let said = place.run(&start);
        let words: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(words[..3], ["00", "00", "1:7"], "{said}");
        assert!(said.ends_with("-> pts/ptmx"), "{said}");
    });
}

/// An image with `VOLUME /run` once had a directory there that its root could not write to.
#[test]
fn the_containers_root_can_write_to_a_volume_of_its_image() {
    for owners in [Owners::Idmap, Owners::Chown] {
        let place = Place::new();
        let script = "cat /run/from-image; touch /run/new /run/lock/new && stat -c %u:%g /run /run/new /run/lock/new; \
                      head -c 1 /run/null 2>/dev/null || echo closed";
        let mut start = place.start(NamespaceSpec::New, script);
        start.rootfs.owners = owners;
        let run = start.rootfs.lowers[0].join("run");
        fs::create_dir_all(run.join("lock")).unwrap();
        fs::write(run.join("from-image"), "text\n").unwrap();
        let kind = rustix::fs::FileType::CharacterDevice;
        let null = rustix::fs::makedev(1, 3);
        rustix::fs::mknodat(rustix::fs::CWD, run.join("null"), kind, 0o666.into(), null).unwrap();
        let source = place.dir.path().join("volumes/0");
        start.volumes = vec![ImageVolume { source: source.clone(), target: "/run".into() }];
        let said = place.run(&start);
        assert_eq!(said.lines().collect::<Vec<_>>(), ["text", "0:0", "0:0", "0:0", "closed"], "{owners:?}");
        assert!(source.join("new").exists());
    }
}

#[test]
fn everybody_in_a_pod_may_ping_and_the_range_is_that_of_its_maps() {
    let place = Place::new();
    let mut start = place.start(NamespaceSpec::New, "cat /proc/sys/net/ipv4/ping_group_range");
    start.sysctls = sysctl::for_pod(&start.sysctls, start.ids.as_ref());
    assert_eq!(place.run(&start).split_whitespace().collect::<Vec<_>>(), ["0", "65535"]);
}

/// sysfs shows a network, and only its owner may mount it: the host's is bound instead.
#[test]
fn with_the_hosts_network_a_user_namespace_sees_the_hosts_sys_and_cannot_change_it() {
    let place = Place::new();
    let mut start = place.start(NamespaceSpec::New, "");
    start.namespaces.network = NamespaceSpec::Host;
    start.mounts = defaults::mounts(&start.namespaces, start.ids.as_ref(), Privilege::Usual);
    start.process.args[3] = "ls /sys/class >/dev/null && echo seen; \
        while read -r a b c d point options e; do case $point in /sys*) echo ${options%%,*} $point;; esac; \
        done </proc/self/mountinfo"
        .into();
    let said = place.run(&start);
    let mut lines = said.lines();
    assert_eq!((lines.next(), lines.next()), (Some("seen"), Some("ro /sys")));
    // The runtime puts a filesystem of the container's own over the last of these.
    let writable: Vec<_> = lines.filter(|line| !line.starts_with("ro ")).collect();
    assert!(writable.is_empty() || writable == ["rw /sys/fs/cgroup"], "{said}");
}

#[test]
fn a_privileged_container_with_the_hosts_users_has_what_we_have() {
    let place = Place::new();
    let script =
        "while read -r name set; do case $name in CapEff:) echo $set;; esac; done </proc/self/status";
    let mut start = place.start(NamespaceSpec::Host, script);
    start.process.capabilities = capabilities::all();
    let own = fs::read_to_string("/proc/thread-self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("CapBnd:")).unwrap().trim().to_owned();
    assert_eq!(place.run(&start), own);
}

/// Plays a host with a shared mount, in a namespace of its own.
#[test]
fn what_a_container_mounts_arrives_on_the_host_where_that_was_asked_for() {
    for (propagation, arrives) in
        [(MountPropagation::Bidirectional, true), (MountPropagation::HostToContainer, false)]
    {
        let place = Place::new();
        let volume = place.dir.path().join("volume");
        fs::create_dir(&volume).unwrap();
        let arrived = in_private_mount_namespace(|_| {
            mount("tmpfs", &volume, "tmpfs", MountFlags::empty(), None).unwrap();
            fs::create_dir(volume.join("inside")).unwrap();
            mount_change(&volume, MountPropagationFlags::SHARED).unwrap();
            let mut start =
                place.start(NamespaceSpec::Host, "mount -t tmpfs mine /data/inside && echo mounted");
            start.process.seccomp = Seccomp::Unconfined;
            start.process.capabilities = capabilities::all();
            start.mounts.push(MountSpec::Bind(Bind {
                source: volume.clone(),
                target: "/data".into(),
                ids: None,
                read_only: ReadOnly::No,
                propagation,
                options: vec![],
            }));
            assert_eq!(place.run(&start), "mounted");
            mounted(&volume.join("inside"))
        });
        assert_eq!(arrived.unwrap(), arrives, "{propagation:?}");
    }
}

fn mounted(path: &Path) -> bool {
    MountTable::read().unwrap().at(path).is_some()
}
