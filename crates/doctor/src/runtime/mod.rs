//! The container runtime: what it claims and what stands behind the claim.

mod ask;
mod config;
mod features;
mod gvisor;
mod handlers;
pub(super) mod offers;

use std::path::PathBuf;

use census::HostRoot;
use cri::Endpoint;

use self::ask::RuntimeInfo;
use self::config::Config;
use self::handlers::Reach;
use crate::check::{Check, Desk, Evidence, Fault, Group};

const DESK: Desk = Desk::new(Group::Runtime, Evidence::Runtime);

/// Default CRI sockets of runtimes.
const USUAL: [&str; 3] =
    ["/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock"];

/// What other checks want to know of the runtime.
#[derive(Debug, Default)]
pub(super) struct Runtime {
    pub(super) checks: Vec<Check>,
    /// Where containerd keeps layers and writable files.
    pub(super) root: Option<PathBuf>,
    /// It sets no oom_score_adj below its own.
    pub(super) spares_oom_score: bool,
    /// What each handler runs.
    pub(super) behind: Vec<Behind>,
}

/// The program behind a handler, and which annotations of a pod reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Behind {
    pub(super) handler: String,
    pub(super) program: PathBuf,
    pub(super) annotations: Vec<String>,
}

/// The runtime that was named, or else the first that listens in a usual place.
pub(super) fn examine(host_root: &HostRoot, named: Option<&Endpoint>, selinux: Selinux) -> Runtime {
    let Some(endpoint) = named.cloned().or_else(|| usual(host_root)) else {
        let shown = DESK.shows("a container runtime", format!("none listens at {}", USUAL.join(", ")));
        return Runtime { checks: vec![shown], ..Runtime::default() };
    };
    match ask::ask(&endpoint) {
        Ok(info) => judged(&endpoint, &info, host_root, selinux),
        Err(fault) => {
            let need = format!("the runtime at {endpoint} answers");
            Runtime { checks: vec![DESK.open(need, fault)], ..Runtime::default() }
        }
    }
}

/// Whether the host has labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selinux {
    On,
    Off,
}

fn usual(host_root: &HostRoot) -> Option<Endpoint> {
    let sockets = USUAL.iter().map(|socket| host_root.path(socket)).filter(|socket| socket.exists());
    sockets.filter_map(|socket| Endpoint::try_from(socket).ok()).next()
}

fn judged(endpoint: &Endpoint, info: &RuntimeInfo, host_root: &HostRoot, selinux: Selinux) -> Runtime {
    let config = info.status.info.get("config").and_then(|text| Config::parse(text));
    let reach = if host_root.is_own() { Reach::OwnRoot } else { Reach::OtherRoot };
    let mut checks = vec![ready(endpoint, info)];
    checks.extend(handlers::checks(info, config.as_ref(), reach));
    checks.extend(recursive_read_only(info));
    checks.extend(snapshotter(info, config.as_ref()));
    if selinux == Selinux::On {
        checks.extend(config.as_ref().map(labels));
    }
    let behind = |handler: &str| {
        let config = config.as_ref()?;
        let program = if config.is_gvisors(handler) {
            gvisor::binary(host_root, config.shims_file(handler))?
        } else {
            config.binary(handler)?
        };
        let annotations = config.pod_annotations(handler).to_vec();
        Some(Behind { handler: handler.to_owned(), program, annotations })
    };
    let behind = config.iter().flat_map(Config::handlers).filter_map(behind).collect();
    Runtime {
        checks,
        behind,
        root: config.as_ref().and_then(Config::root).map(|root| host_root.path(root)),
        spares_oom_score: config.is_some_and(|config| config.restrict_oom_score_adj),
    }
}

fn restart(runtime: &str) -> String {
    match runtime {
        "cri-o" => "systemctl restart crio".to_owned(),
        other => format!("systemctl restart {other}"),
    }
}

fn ready(endpoint: &Endpoint, info: &RuntimeInfo) -> Check {
    let need = format!("the runtime at {endpoint} is ready");
    let version = format!("{} {}", info.version.runtime_name, info.version.runtime_version);
    let conditions = info.status.status.iter().flat_map(|status| &status.conditions);
    match conditions
        .filter(|condition| condition.r#type == "RuntimeReady")
        .find(|condition| !condition.status)
    {
        None => DESK.holds(need, version),
        Some(condition) => {
            let cause = format!("{}: {}", condition.reason, condition.message);
            let fix = format!("journalctl -u {}", info.version.runtime_name);
            DESK.fails(need, version, Fault::new(cause, fix))
        }
    }
}

fn recursive_read_only(info: &RuntimeInfo) -> Option<Check> {
    let handlers = &info.status.runtime_handlers;
    let able = |name: &str| {
        let handler = handlers.iter().find(|handler| handler.name == name)?;
        Some(handler.features.as_ref().is_some_and(|features| features.recursive_read_only_mounts))
    };
    let need = "the default handler makes mounts read-only with all below them";
    let check = if able("")? {
        DESK.holds(need, "claimed")
    } else {
        let cause = "pods whose mounts say recursiveReadOnly: Enabled are refused";
        DESK.fails(need, "no", Fault::new(cause, "install runc 1.1 or newer and containerd 2.0 or newer"))
    };
    Some(check.useful())
}

/// Those that show layers under other owners without a copy.
const REMAPPING: [&str; 2] = ["overlayfs", "erofs"];

fn snapshotter(info: &RuntimeInfo, config: Option<&Config>) -> Option<Check> {
    const DIRECTORY: &str = "io.containerd.snapshotter.v1.";
    let of_place = info.images.as_ref().and_then(|place| place.rsplit_once(DIRECTORY)).map(|(_, name)| name);
    let name = of_place.or_else(|| config.and_then(Config::snapshotter))?;
    let need = "containerd's snapshotter shows an image to each pod without copying it";
    Some(if REMAPPING.contains(&name) {
        DESK.holds(need, name)
    } else {
        let cause = format!(
            "{name} cannot show layers under other owners: containerd refuses the pod, or copies and chowns the \
             whole image for it"
        );
        let fix = "set snapshotter = \"overlayfs\" under [plugins.'io.containerd.cri.v1.images'] in \
                   /etc/containerd/config.toml, then: systemctl restart containerd";
        DESK.fails(need, name, Fault::new(cause, fix)).useful()
    })
}

fn labels(config: &Config) -> Check {
    let need = "containerd labels containers";
    if config.enable_selinux {
        return DESK.holds(need, "yes");
    }
    let cause = "SELinux is on and containerd's enable_selinux is off: all containers have one label";
    let fix = "set enable_selinux = true under [plugins.'io.containerd.cri.v1.runtime'] in \
               /etc/containerd/config.toml, then: systemctl restart containerd";
    DESK.fails(need, "no", Fault::new(cause, fix)).useful()
}

#[cfg(test)]
mod tests {
    use cri::{StatusResponse, VersionResponse};

    use super::*;

    fn info(images: &str) -> RuntimeInfo {
        let (version, status) = (VersionResponse::default(), StatusResponse::default());
        RuntimeInfo { version, status, images: Some(images.to_owned()) }
    }

    #[test]
    fn the_snapshotter_is_known_by_the_place_of_its_images() {
        let check = |place: &str| snapshotter(&info(place), None).map(|check| (check.found, check.holds));
        let place = |name: &str| format!("/var/lib/containerd/io.containerd.snapshotter.v1.{name}");
        assert_eq!(check(&place("overlayfs")), Some(("overlayfs".to_owned(), true)));
        assert_eq!(check(&place("native")), Some(("native".to_owned(), false)));
        assert_eq!(check("/var/lib/containers/storage/overlay-images"), None);
    }
}
