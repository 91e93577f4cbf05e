//! What the supervisor does once it is in namespaces of its own: mounts, addresses, private copies of what
//! components write to. The host sees none of it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::addresses::NODE_IP;
use super::cgroups;
use super::host_ids;
use super::parts::Part;
use super::record::Record;
use crate::paths::RUN_ROOT;
use crate::{Error, Result, program, registry};

/// Directories of the host in which components make files of their own. Each becomes the host's with a
/// layer of ours on top.
const LAYERED: &[&str] = &["/etc", "/var/lib", "/var/log"];

/// Settings that a kubelet and `wardlet agent` write for the whole host, with the values it wants. A file of ours stands in for
/// each: the kubelet finds what it wants, and the host keeps what it had.
const SYSCTLS: &[(&str, &str)] = &[
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// The user whose subordinate IDs the kubelet gives to pods.
const KUBELET_USER: &str = "kubelet:x:999:999::/nonexistent:/usr/sbin/nologin\n";

/// Makes the namespaces ready for the daemons of `record`.
pub(crate) fn prepare(record: &Record) -> Result<()> {
    // Still a slave of the host, so that what the host unmounts does not stay busy because of us.
    mount(&["--make-rshared", "/"])?;
    cgroups::mount_own_view()?;
    private_run(&record.places.data)?;
    layers(&record.places.data)?;
    network()?;
    sysctls(&record.places.data)?;
    if record.parts.has(Part::Kubelet) {
        subordinate_ids(record)?;
    }
    if record.runtime_is_in_agent() {
        make(Path::new("/etc/wardlet"))?;
        write("/etc/wardlet/registries.yaml", &registry::of_wardlet(record))?;
    }
    bind_kubelet(&record.places.data)
}

fn mount(arguments: &[&str]) -> Result<()> {
    program::run(Command::new("mount").args(arguments)).map(|_| ())
}

fn make(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(Error::file("make", path))
}

fn write(path: impl AsRef<Path>, text: &str) -> Result<()> {
    fs::write(&path, text).map_err(Error::file("write", path.as_ref()))
}

/// Shims and runc keep sockets and state at fixed places below /run: a /run of our own, with the records
/// and sockets of the testbeds shining through.
fn private_run(data: &Path) -> Result<()> {
    let held = data.join("held");
    make(&held)?;
    let held = held.display().to_string();
    mount(&["--bind", RUN_ROOT, &held])?;
    mount(&["-t", "tmpfs", "-o", "mode=755,size=256m", "testbed", "/run"])?;
    make(Path::new(RUN_ROOT))?;
    mount(&["--bind", &held, RUN_ROOT])?;
    program::run(Command::new("umount").arg(&held)).map(|_| ())
}

/// The upper layers are on a tmpfs: they hold mount points and a few small files, and go with the namespace.
fn layers(data: &Path) -> Result<()> {
    let scratch = data.join("layers");
    make(&scratch)?;
    let at = scratch.display().to_string();
    mount(&["-t", "tmpfs", "-o", "mode=755,size=256m", "testbed", &at])?;
    for (number, lower) in LAYERED.iter().enumerate() {
        let upper = scratch.join(format!("{number}-upper"));
        let work = scratch.join(format!("{number}-work"));
        make(&upper)?;
        make(&work)?;
        let options = format!("lowerdir={lower},upperdir={},workdir={}", upper.display(), work.display());
        mount(&["-t", "overlay", "-o", &options, "testbed", lower])?;
    }
    Ok(())
}

/// Volumes must be on a filesystem that can be idmapped, which an overlay cannot.
fn bind_kubelet(data: &Path) -> Result<()> {
    let pairs =
        [("kubelet", "/var/lib/kubelet"), ("pod-logs", "/var/log/pods"), ("wardlet", "/var/lib/wardlet")];
    for (name, target) in pairs {
        let own = data.join(name);
        make(&own)?;
        make(Path::new(target))?;
        mount(&["--bind", &own.display().to_string(), target])?;
    }
    for target in ["/var/log/containers", "/var/lib/cni", "/etc/cni/net.d"] {
        make(Path::new(target))?;
    }
    write("/etc/cni/net.d/10-bridge.conflist", include_str!("../../etc/bridge.conflist"))
}

/// Loopback, and a veth that leads nowhere: the API server wants an address and a default route.
fn network() -> Result<()> {
    let address = format!("{NODE_IP}/24");
    let commands: [&[&str]; 7] = [
        &["link", "set", "lo", "up"],
        &["link", "add", "node0", "type", "veth", "peer", "name", "node0p"],
        &["link", "set", "node0p", "up"],
        &["addr", "add", &address, "dev", "node0"],
        &["link", "set", "node0", "up"],
        &["route", "add", "default", "via", "10.240.0.1", "dev", "node0", "onlink"],
        &["link", "show", "node0"],
    ];
    for arguments in commands {
        program::run(Command::new("ip").args(arguments))?;
    }
    write("/proc/sys/net/ipv4/ip_forward", "1")
}

fn sysctls(data: &Path) -> Result<()> {
    let dir = data.join("sysctls");
    make(&dir)?;
    // A user namespace may mount proc only where one can be seen with nothing mounted over its files: this
    // one, in place of /proc.
    let whole = data.join("proc");
    make(&whole)?;
    mount(&["-t", "proc", "-o", "nosuid,nodev,noexec", "proc", &whole.display().to_string()])?;
    for (name, value) in SYSCTLS {
        let target = Path::new("/proc/sys").join(name);
        if !target.exists() {
            continue;
        }
        let own = dir.join(name.replace('/', "."));
        write(&own, &format!("{value}\n"))?;
        mount(&["--bind", &own.display().to_string(), &target.display().to_string()])?;
    }
    Ok(())
}

/// /etc is already a layer of ours.
fn subordinate_ids(record: &Record) -> Result<()> {
    if program::find("getsubids").is_none() {
        return Ok(());
    }
    let passwd = fs::read_to_string("/etc/passwd").map_err(Error::file("read", "/etc/passwd"))?;
    if !passwd.lines().any(|line| line.starts_with("kubelet:")) {
        write("/etc/passwd", &(passwd + KUBELET_USER))?;
    }
    let line = host_ids::line(record.host_ids);
    write("/etc/subuid", &line)?;
    write("/etc/subgid", &line)
}
