//! A [`ContainerSpec`] as the configuration that OCI runtimes read.
//!
//! The runtime gets a prepared root and binds whose owners are right already: it is never asked to idmap anything,
//! which some runtimes cannot and some silently ignore.

use std::path::{Path, PathBuf};

use cgroups::Resources;
use ids::IdMapping;
use serde_json::{Map, Value, json};

use types::MountPropagation;

use crate::capabilities::Sets;
use crate::container_spec::{
    Bind, Console, ContainerSpec, DeviceRule, ImageFiles, ImageVolume, MountSpec, NamespaceSpec, NewMount,
    Process, ReadOnly, Seccomp, User,
};

/// The prepared root filesystem, mounts and devices of a [`ContainerSpec`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedPaths {
    /// The container's root filesystem.
    pub rootfs: PathBuf,
    /// The sources of its binds and images, in the order in which they are in [`ContainerSpec::mounts`].
    pub binds: Vec<PathBuf>,
    /// The sources of its image's volumes, in the order of [`ContainerSpec::volumes`].
    pub volumes: Vec<PathBuf>,
    /// Its devices: of a directory, all that are below it.
    pub devices: Vec<PreparedDevice>,
    /// The user of its first process.
    pub user: User,
    /// That user's home, where the container's files name one.
    pub home: Option<String>,
    /// Its capabilities, as far as they can be granted here.
    pub capabilities: Sets,
}

/// A device of a container with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedDevice {
    /// Its path in the container.
    pub target: PathBuf,
    /// `r`, `w` and `m`.
    pub access: String,
    /// Its number.
    pub number: DeviceNumber,
    /// The source of a bind mount; `None` where a node can be created instead.
    pub bind: Option<PathBuf>,
}

/// Type and number of a device, and the owner and mode of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceNumber {
    /// `c` or `b`.
    pub kind: char,
    /// The major number.
    pub major: u32,
    /// The minor number.
    pub minor: u32,
    /// Its permissions.
    pub mode: u32,
    /// The user that it belongs to on the host.
    pub uid: u32,
    /// The group that it belongs to on the host.
    pub gid: u32,
}

/// The version whose fields are used; no runtime refuses a newer patch.
const VERSION: &str = "1.0.2";

/// The OCI runtime configuration (`config.json`).
#[must_use]
pub fn of(start: &ContainerSpec, ready: &PreparedPaths) -> Value {
    let mut spec = json!({
        "ociVersion": VERSION,
        "root": { "path": ready.rootfs, "readonly": start.rootfs.read_only },
        "process": process(&start.process, ready),
        "mounts": mounts(start, ready),
        "annotations": start.annotations,
        "linux": linux(start, ready),
    });
    if let (Some(name), NamespaceSpec::New) = (&start.hostname, &start.namespaces.uts) {
        set(&mut spec, "hostname", json!(name));
    }
    spec
}

fn process(process: &Process, ready: &PreparedPaths) -> Value {
    let user = &ready.user;
    let mut value = json!({
        "terminal": process.console == Console::Terminal,
        "user": { "uid": user.uid, "gid": user.gid, "additionalGids": user.groups },
        "args": process.args,
        "env": environment(process, ready.home.as_deref()),
        "cwd": process.cwd,
        "capabilities": ready.capabilities,
        "noNewPrivileges": process.no_new_privileges,
        "rlimits": process.rlimits.iter().map(|limit| json!({
            "type": limit.kind, "soft": limit.soft, "hard": limit.hard,
        })).collect::<Vec<_>>(),
    });
    set_if(&mut value, "oomScoreAdj", process.oom_score_adj);
    set_if(&mut value, "apparmorProfile", process.apparmor_profile.as_deref());
    set_if(&mut value, "selinuxLabel", process.selinux_label.as_deref());
    value
}

/// Every process has a home; that of a user without an entry in the container's passwd file is `/`.
fn environment(process: &Process, home: Option<&str>) -> Vec<String> {
    let mut env = process.env.clone();
    if !env.iter().any(|variable| variable.starts_with("HOME=")) {
        env.push(format!("HOME={}", home.unwrap_or("/")));
    }
    env
}

/// One mount of a container, with its prepared source.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part<'a> {
    /// A file or directory of the host.
    Bind(&'a Bind, &'a Path),
    /// Files of another image.
    Image(&'a ImageFiles, &'a Path),
    /// A directory that the image wants to be a volume.
    Volume(&'a ImageVolume, &'a Path),
    /// A device that is bind-mounted, because no node can be created.
    Device(&'a PreparedDevice, &'a Path),
    /// A new filesystem.
    New(&'a NewMount),
}

impl<'a> Part<'a> {
    /// The mount point in the container.
    pub(crate) fn target(self) -> &'a Path {
        match self {
            Self::Bind(bind, _) => &bind.target,
            Self::Image(image, _) => &image.target,
            Self::Volume(volume, _) => &volume.target,
            Self::Device(device, _) => &device.target,
            Self::New(new) => &new.target,
        }
    }

    /// The source of a bind mount, below the stage; a new filesystem has none.
    pub(crate) fn source(self) -> Option<&'a Path> {
        match self {
            Self::Bind(_, source)
            | Self::Image(_, source)
            | Self::Volume(_, source)
            | Self::Device(_, source) => Some(source),
            Self::New(_) => None,
        }
    }

    /// As an OCI runtime reads it. Owners and read-only mounts are prepared on our side; the options repeat the
    /// latter.
    pub(crate) fn json(self) -> Value {
        let options = match self {
            Self::Bind(bind, _) => bind_options(bind),
            Self::Image(..) => vec!["rbind", "rprivate", "ro", "nodev"],
            Self::Volume(..) => vec!["rbind", "rprivate", "rw", "nodev"],
            Self::Device(..) => vec!["bind", "rprivate", "rw", "nosuid", "noexec"],
            Self::New(new) => return made(new),
        };
        json!({ "destination": self.target(), "type": "bind", "source": self.source(), "options": options })
    }
}

/// The mounts of a container, in the order in which they are made.
pub(crate) fn parts<'a>(start: &'a ContainerSpec, ready: &'a PreparedPaths) -> Vec<Part<'a>> {
    let mut sources = ready.binds.iter();
    let of = |mount: &'a MountSpec| match mount {
        MountSpec::Bind(bind) => {
            Part::Bind(bind, sources.next().map_or(bind.source.as_path(), PathBuf::as_path))
        }
        MountSpec::New(new) => Part::New(new),
        MountSpec::Image(image) => Part::Image(image, sources.next().map_or(Path::new(""), PathBuf::as_path)),
    };
    let mut parts: Vec<Part<'a>> = start.mounts.iter().map(of).collect();
    let mut volumes: Vec<_> = start.volumes.iter().zip(&ready.volumes).collect();
    volumes.sort_by_key(|(volume, _)| volume.target.components().count());
    for (volume, source) in volumes {
        let below = |part: &Part<'_>| part.target().starts_with(&volume.target);
        let place = parts.iter().position(below).unwrap_or(parts.len());
        parts.insert(place, Part::Volume(volume, source));
    }
    let devices =
        ready.devices.iter().filter_map(|device| Some(Part::Device(device, device.bind.as_deref()?)));
    parts.extend(devices);
    parts
}

fn mounts(start: &ContainerSpec, ready: &PreparedPaths) -> Vec<Value> {
    parts(start, ready).into_iter().map(Part::json).collect()
}

fn bind_options(bind: &Bind) -> Vec<&str> {
    let mut options = vec!["rbind"];
    options.push(match bind.propagation {
        MountPropagation::None => "rprivate",
        MountPropagation::HostToContainer => "rslave",
        MountPropagation::Bidirectional => "rshared",
    });
    options.push(match bind.read_only {
        ReadOnly::No => "rw",
        // Mounts below are made read-only on our side: not every runtime knows `rro`.
        ReadOnly::Yes | ReadOnly::Recursive => "ro",
    });
    options.extend(bind.options.iter().map(String::as_str));
    options
}

fn made(new: &NewMount) -> Value {
    json!({
        "destination": new.target, "type": new.filesystem, "source": new.filesystem, "options": new.options,
    })
}

fn linux(start: &ContainerSpec, ready: &PreparedPaths) -> Value {
    let mut value = json!({
        "namespaces": namespaces(start),
        "cgroupsPath": start.cgroup.path,
        "resources": resources(&start.cgroup.resources, start, ready),
        "sysctl": start.sysctls,
        "maskedPaths": start.masked_paths,
        "readonlyPaths": start.read_only_paths,
        "devices": devices(ready),
    });
    if let Some(ids) = start.ids.as_ref().filter(|_| start.namespaces.user != NamespaceSpec::Host) {
        set(&mut value, "uidMappings", lines(&ids.uids));
        set(&mut value, "gidMappings", lines(&ids.gids));
    }
    if let Seccomp::Profile(profile) = &start.process.seccomp {
        set(&mut value, "seccomp", (**profile).clone());
    }
    set_if(&mut value, "mountLabel", start.rootfs.label.as_deref());
    // A mount made below a volume on the host is to arrive, so `/` cannot be private. Shared, it lets
    // out what is made below a bind that is the host's own; all else stays in the private namespace
    // in which the runtime runs.
    let both_ways = |mount: &MountSpec| matches!(mount, MountSpec::Bind(b) if b.propagation == MountPropagation::Bidirectional);
    let propagation = if start.mounts.iter().any(both_ways) { "rshared" } else { "rslave" };
    set(&mut value, "rootfsPropagation", json!(propagation));
    value
}

fn lines(maps: &[IdMapping]) -> Value {
    let line = |line: &IdMapping| {
        json!({
            "containerID": line.container().get(),
            "hostID": u64::from(line.host().first()),
            "size": line.length(),
        })
    };
    maps.iter().map(line).collect()
}

fn namespaces(start: &ContainerSpec) -> Vec<Value> {
    let spaces = &start.namespaces;
    let kinds = [
        ("user", &spaces.user),
        ("network", &spaces.network),
        ("ipc", &spaces.ipc),
        ("uts", &spaces.uts),
        ("pid", &spaces.pid),
        ("cgroup", &spaces.cgroup),
    ];
    let of = |(kind, space): (&str, &NamespaceSpec)| match space {
        NamespaceSpec::Host => None,
        NamespaceSpec::New => Some(json!({ "type": kind })),
        NamespaceSpec::At(path) => Some(json!({ "type": kind, "path": path })),
    };
    std::iter::once(json!({ "type": "mount" })).chain(kinds.into_iter().filter_map(of)).collect()
}

/// Nodes cannot be created in a user namespace: there they are bind-mounted, and only the rules count.
fn devices(ready: &PreparedPaths) -> Vec<Value> {
    let of = |device: &PreparedDevice| {
        let number = &device.number;
        json!({
            "path": device.target, "type": number.kind, "major": number.major, "minor": number.minor,
            "fileMode": number.mode, "uid": number.uid, "gid": number.gid,
        })
    };
    ready.devices.iter().filter(|device| device.bind.is_none()).map(of).collect()
}

fn resources(limits: &Resources, start: &ContainerSpec, ready: &PreparedPaths) -> Value {
    let mut value = json!({ "devices": device_rules(start, ready) });
    let mut cpu = Value::Object(Map::new());
    set_if(&mut cpu, "shares", limits.cpu_shares);
    set_if(&mut cpu, "quota", limits.cpu_quota);
    set_if(&mut cpu, "period", limits.cpu_period);
    set_if(&mut cpu, "cpus", limits.cpuset_cpus.as_deref());
    set_if(&mut cpu, "mems", limits.cpuset_mems.as_deref());
    let mut memory = Value::Object(Map::new());
    set_if(&mut memory, "limit", limits.memory);
    set_if(&mut memory, "swap", limits.memory_swap);
    for (name, part) in [("cpu", cpu), ("memory", memory)] {
        if part.as_object().is_some_and(|part| !part.is_empty()) {
            set(&mut value, name, part);
        }
    }
    set_if(&mut value, "pids", limits.pids.map(|limit| json!({ "limit": limit })));
    if !limits.hugepages.is_empty() {
        let page = |(size, limit): (&String, &u64)| json!({ "pageSize": size, "limit": limit });
        set(&mut value, "hugepageLimits", limits.hugepages.iter().map(page).collect());
    }
    if !limits.unified.is_empty() {
        set(&mut value, "unified", json!(limits.unified));
    }
    value
}

fn device_rules(start: &ContainerSpec, ready: &PreparedPaths) -> Vec<Value> {
    std::iter::once(nothing()).chain(asked_for(start, ready)).map(|r| rule(&r)).collect()
}

/// Which devices a container may use, in order: the default ones, and those that were requested.
#[must_use]
pub fn all_device_rules(start: &ContainerSpec, ready: &PreparedPaths) -> Vec<DeviceRule> {
    // mknod alone gives no access to the device.
    let nodes = ['b', 'c'].map(|kind| allowed(kind, None, None, "m"));
    let usual = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)];
    let usual = usual.map(|(major, minor)| allowed('c', Some(major), Some(minor), "rwm"));
    let terminals = allowed('c', Some(TERMINALS), None, "rwm");
    let own = nodes.into_iter().chain(usual).chain([terminals]);
    std::iter::once(nothing()).chain(own).chain(asked_for(start, ready)).collect()
}

/// The major number of pseudo-terminals.
const TERMINALS: u32 = 136;

fn nothing() -> DeviceRule {
    DeviceRule { allow: false, kind: 'a', major: None, minor: None, access: "rwm".into() }
}

fn allowed(kind: char, major: Option<u32>, minor: Option<u32>, access: &str) -> DeviceRule {
    DeviceRule { allow: true, kind, major, minor, access: access.to_owned() }
}

fn asked_for(start: &ContainerSpec, ready: &PreparedPaths) -> impl Iterator<Item = DeviceRule> {
    let of_device = |device: &PreparedDevice| {
        let number = &device.number;
        allowed(number.kind, Some(number.major), Some(number.minor), &device.access)
    };
    let given: Vec<DeviceRule> = ready.devices.iter().map(of_device).collect();
    start.device_rules.clone().into_iter().chain(given)
}

fn rule(rule: &DeviceRule) -> Value {
    let mut value = json!({ "allow": rule.allow, "access": rule.access });
    if rule.kind != 'a' {
        set(&mut value, "type", json!(rule.kind));
    }
    set_if(&mut value, "major", rule.major);
    set_if(&mut value, "minor", rule.minor);
    value
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(name.to_owned(), value);
    }
}

fn set_if<T: Into<Value>>(object: &mut Value, name: &str, value: Option<T>) {
    if let Some(value) = value {
        set(object, name, value.into());
    }
}
