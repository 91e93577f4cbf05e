//! Whose pod a process is, by the control group that its runtime put it into.
//!
//! Runtimes' records go first: they say which control group is a sandbox's, whatever it is called. Names of control
//! groups tell only where there is no record.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// What tells one pod from all others on the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Identity {
    /// A pod of Kubernetes, by its UID.
    Pod(String),
    /// A sandbox of the built-in runtime, or one that only a CRI runtime knows.
    Sandbox(String),
    /// A pod or a container of podman.
    Libpod(String),
}

impl Identity {
    /// The UID, ID or number itself.
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Pod(key) | Self::Sandbox(key) | Self::Libpod(key) => key,
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// Where a process stands in a pod's control group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) identity: Identity,
    pub(crate) part: Part,
}

/// What a process does for its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// It runs in the pod.
    Container,
    /// By its control group it is the runtime's own, and only counted with the pod: conmon, which CRI-O and podman
    /// put there. The group lies beside those of the containers, where no process of a container can make one.
    Runtime,
}

/// The control groups that runtimes have recorded for their sandboxes.
#[derive(Debug, Default)]
pub(crate) struct Recorded(HashMap<String, Identity>);

impl Recorded {
    /// Notes that the containers of the sandbox `id` are in the control group `cgroup`. The kubelet's control groups are
    /// left out: they are known by the UID of the pod, which may have had another sandbox before. So is the root.
    pub(crate) fn add(&mut self, cgroup: &str, id: &str) {
        let cgroup = cgroup.trim_end_matches('/');
        if !cgroup.is_empty() && kubernetes(&parts_of(cgroup)).is_none() {
            self.0.insert(cgroup.to_owned(), Identity::Sandbox(id.to_owned()));
        }
    }

    /// Of several around one another the outermost: what is inside may be named by a process of the sandbox.
    fn sandbox(&self, path: &str) -> Option<Identity> {
        Path::new(path).ancestors().filter_map(|group| self.0.get(group.to_str()?)).last().cloned()
    }
}

/// From the text of /proc/PID/cgroup: the first hierarchy that names a pod does.
pub(crate) fn membership(text: &str, recorded: &Recorded) -> Option<Membership> {
    let paths = || text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let by_record = paths().find_map(|path| recorded.sandbox(path));
    match by_record {
        Some(identity) => Some(Membership { identity, part: Part::Container }),
        None => paths().find_map(by_name),
    }
}

fn by_name(path: &str) -> Option<Membership> {
    let parts = parts_of(path);
    let identity = kubernetes(&parts).or_else(|| built_in(&parts)).or_else(|| libpod(&parts))?;
    let part = if is_conmons(&identity, &parts) { Part::Runtime } else { Part::Container };
    Some(Membership { identity, part })
}

fn parts_of(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

/// Whether the group is one that an engine makes for conmon: CRI-O right below the pod's group, podman beside those of the
/// containers. Further down the name is the choice of a process inside.
fn is_conmons(identity: &Identity, parts: &[&str]) -> bool {
    match identity {
        Identity::Pod(_) => {
            let in_kubepods = parts.iter().skip_while(|part| !part.contains("kubepods"));
            let mut below_pod = in_kubepods.skip_while(|part| pod_uid(part).is_none()).skip(1);
            below_pod.next().is_some_and(|part| part.starts_with("crio-conmon-"))
        }
        Identity::Libpod(_) => {
            let mut by_systemd = parts.iter().skip_while(|part| !part.contains("libpod-"));
            let mut below_parent = below_libpod_parent(parts);
            by_systemd.next().is_some_and(|part| part.starts_with("libpod-conmon-"))
                || (below_parent.next().is_some_and(|pod| is_hex(pod, 64))
                    && below_parent.next() == Some("conmon"))
        }
        Identity::Sandbox(_) => false,
    }
}

/// `…/kubepods/burstable/pod<uid>/…`, or systemd's `…/kubepods-burstable-pod<uid with underscores>.slice/…`.
fn kubernetes(parts: &[&str]) -> Option<Identity> {
    let mut below = parts.iter().skip_while(|part| !part.contains("kubepods"));
    below.find_map(|part| pod_uid(part)).map(Identity::Pod)
}

fn pod_uid(part: &str) -> Option<String> {
    let uid = match part.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod").map(|(_, uid)| uid.replace('_', "-")),
        None => part.strip_prefix("pod").map(str::to_owned),
    };
    uid.filter(|uid| !uid.is_empty())
}

/// `…/wardlet/<sandbox>/…`: 32 hexadecimal digits.
fn built_in(parts: &[&str]) -> Option<Identity> {
    let mut pairs = parts.iter().zip(parts.iter().skip(1));
    let (_, id) = pairs.find(|(parent, id)| **parent == "wardlet" && is_hex(id, 32))?;
    Some(Identity::Sandbox((*id).to_owned()))
}

/// The names below the group in which podman makes its own where systemd does not make them.
fn below_libpod_parent<'a>(parts: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    parts.iter().copied().skip_while(|part| *part != "libpod_parent").skip(1)
}

/// `…/libpod_pod_<id>…` of a pod by systemd, `…/libpod_parent/<id>/…` of a pod without systemd, else `…/libpod-<id>…` of a
/// container.
fn libpod(parts: &[&str]) -> Option<Identity> {
    let after = |mark: &str| {
        parts.iter().find_map(|part| {
            let id = part.split_once(mark)?.1.trim_end_matches(".scope").trim_end_matches(".slice");
            is_hex(id, 64).then(|| Identity::Libpod(id.to_owned()))
        })
    };
    let below_parent = || {
        let id = below_libpod_parent(parts).next().filter(|id| is_hex(id, 64))?;
        Some(Identity::Libpod(id.to_owned()))
    };
    after("libpod_pod_")
        .or_else(below_parent)
        .or_else(|| after("libpod-conmon-"))
        .or_else(|| after("libpod-"))
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> Option<(Identity, Part)> {
        membership(&format!("4:memory:{path}\n0::/\n"), &Recorded::default()).map(|m| (m.identity, m.part))
    }

    #[test]
    fn a_pod_is_known_by_either_driver_of_control_groups() {
        let uid = "0b8ba3fd-5e6f-4fd8-9a3a-111111111111";
        let pod = Some((Identity::Pod(uid.to_owned()), Part::Container));
        assert_eq!(found(&format!("/kubepods/besteffort/pod{uid}/abc")), pod);
        assert_eq!(found(&format!("/anchor/kubepods/pod{uid}/abc")), pod);
        let slice = uid.replace('-', "_");
        let path =
            format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{slice}.slice/cri-x.scope");
        assert_eq!(found(&path), pod);
        let conmon = format!("/kubepods.slice/kubepods-pod{slice}.slice/crio-conmon-77.scope");
        assert_eq!(found(&conmon), Some((Identity::Pod(uid.to_owned()), Part::Runtime)));
    }

    #[test]
    fn sandboxes_of_ours_and_of_podman_are_known_by_their_ids() {
        let (ours, theirs) = ("0123456789abcdef0123456789abcdef", "a".repeat(64));
        let sandbox = Identity::Sandbox(ours.to_owned());
        assert_eq!(found(&format!("/wardlet/{ours}/c1")), Some((sandbox, Part::Container)));
        let libpod = Identity::Libpod(theirs.clone());
        let scope = format!("/machine.slice/libpod-{theirs}.scope/container");
        assert_eq!(found(&scope), Some((libpod.clone(), Part::Container)));
        let conmon = format!("/machine.slice/libpod-conmon-{theirs}.scope");
        assert_eq!(found(&conmon), Some((libpod, Part::Runtime)));
    }

    #[test]
    fn the_containers_of_a_podman_pod_are_one_pod_with_and_without_systemd() {
        let (pod, one, two) = ("a".repeat(64), "b".repeat(64), "c".repeat(64));
        let member = Some((Identity::Libpod(pod.clone()), Part::Container));
        for container in [&one, &two] {
            assert_eq!(found(&format!("/libpod_parent/{pod}/libpod-{container}")), member);
            let scope = format!("/machine.slice/machine-libpod_pod_{pod}.slice/libpod-{container}.scope");
            assert_eq!(found(&scope), member);
        }
        let conmon = format!("/libpod_parent/{pod}/conmon");
        assert_eq!(found(&conmon), Some((Identity::Libpod(pod.clone()), Part::Runtime)));
        assert_eq!(found(&format!("/libpod_parent/{pod}/libpod-{one}/conmon")), member);
        let alone = Some((Identity::Libpod(one.clone()), Part::Container));
        assert_eq!(found(&format!("/libpod_parent/libpod-{one}")), alone);
        assert_eq!(found(&format!("/libpod_parent/libpod-{one}/conmon")), alone);
        let uid = "0b8ba3fd-5e6f-4fd8-9a3a-111111111111";
        let inside = format!("/kubepods/pod{uid}/container/libpod_parent/{pod}/conmon");
        assert_eq!(found(&inside), Some((Identity::Pod(uid.to_owned()), Part::Container)));
    }

    #[test]
    fn other_groups_are_nobodys_pod() {
        for path in ["/", "/system.slice/cron.service", "/wardlet", "/wardlet/short", "/user.slice/podium"] {
            assert_eq!(found(path), None, "{path}");
        }
        assert_eq!(membership("nonsense", &Recorded::default()), None);
    }

    #[test]
    fn a_group_inside_a_container_is_not_conmons_whatever_it_is_called() {
        let uid = "0b8ba3fd-5e6f-4fd8-9a3a-111111111111";
        let pod = Some((Identity::Pod(uid.to_owned()), Part::Container));
        assert_eq!(found(&format!("/kubepods/pod{uid}/container/crio-conmon-1.scope")), pod);
        assert_eq!(found(&format!("/kubepods/pod{uid}/container/pod{uid}/crio-conmon-1.scope")), pod);
        let (own, other) = ("a".repeat(64), "b".repeat(64));
        let inside = format!("/machine.slice/libpod-{own}.scope/libpod-conmon-{other}.scope");
        assert_eq!(found(&inside).unwrap().1, Part::Container);
    }

    #[test]
    fn a_recorded_group_is_the_sandboxs_whatever_it_or_what_is_inside_is_called() {
        let mut recorded = Recorded::default();
        recorded.add("/elsewhere/one/", "one");
        recorded.add("/kubepods/podu", "two");
        recorded.add("/", "three");
        let found = |path: &str| membership(&format!("0::{path}\n"), &recorded).map(|m| (m.identity, m.part));
        let one = Some((Identity::Sandbox("one".to_owned()), Part::Container));
        assert_eq!(found("/elsewhere/one"), one);
        assert_eq!(found("/elsewhere/one/c/kubepods/podx/crio-conmon-1"), one);
        assert_eq!(found("/kubepods/podu/c"), Some((Identity::Pod("u".to_owned()), Part::Container)));
        assert_eq!(found("/elsewhere/oneself"), None);
    }
}
