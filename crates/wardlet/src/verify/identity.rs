//! Whose pod a process is, by the control group that its runtime put it into.

use std::fmt;

/// What tells one pod from all others on the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Identity {
    /// A pod of Kubernetes, by its UID.
    Pod(String),
    /// A sandbox of the built-in runtime, or one that only a CRI runtime knows.
    Sandbox(String),
    /// A pod or a container of podman.
    Libpod(String),
}

impl Identity {
    /// The UID, ID or number itself.
    pub(super) fn key(&self) -> &str {
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
pub(super) struct Membership {
    pub(super) identity: Identity,
    pub(super) part: Part,
}

/// What a process does for its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It runs in the pod.
    Container,
    /// It is the runtime's own and only counted with the pod: conmon, which CRI-O and podman put there. Its
    /// group is made by the runtime; a pod's process cannot get into it.
    Runtime,
}

/// From the text of /proc/PID/cgroup: the first hierarchy that names a pod does.
pub(super) fn membership(text: &str) -> Option<Membership> {
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).find_map(of_path)
}

fn of_path(path: &str) -> Option<Membership> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let identity = kubernetes(&parts).or_else(|| built_in(&parts)).or_else(|| libpod(&parts))?;
    let runtimes =
        parts.iter().any(|part| part.starts_with("crio-conmon-") || part.starts_with("libpod-conmon-"));
    Some(Membership { identity, part: if runtimes { Part::Runtime } else { Part::Container } })
}

/// `…/kubepods/burstable/pod<uid>/…`, or systemd's `…/kubepods-burstable-pod<uid with underscores>.slice/…`.
fn kubernetes(parts: &[&str]) -> Option<Identity> {
    let mut below = parts.iter().skip_while(|part| !part.contains("kubepods"));
    below.find_map(|part| {
        let uid = match part.strip_suffix(".slice") {
            Some(slice) => slice.rsplit_once("-pod").map(|(_, uid)| uid.replace('_', "-")),
            None => part.strip_prefix("pod").map(str::to_owned),
        };
        uid.filter(|uid| !uid.is_empty()).map(Identity::Pod)
    })
}

/// `…/wardlet/<sandbox>/…`: 32 hexadecimal digits.
fn built_in(parts: &[&str]) -> Option<Identity> {
    let mut pairs = parts.iter().zip(parts.iter().skip(1));
    let (_, id) = pairs.find(|(parent, id)| **parent == "wardlet" && is_hex(id, 32))?;
    Some(Identity::Sandbox((*id).to_owned()))
}

/// `…/libpod_pod_<id>…` of a pod, else `…/libpod-<id>…` of a container.
fn libpod(parts: &[&str]) -> Option<Identity> {
    let after = |mark: &str| {
        parts.iter().find_map(|part| {
            let id = part.split_once(mark)?.1.trim_end_matches(".scope").trim_end_matches(".slice");
            is_hex(id, 64).then(|| Identity::Libpod(id.to_owned()))
        })
    };
    after("libpod_pod_").or_else(|| after("libpod-conmon-")).or_else(|| after("libpod-"))
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> Option<(Identity, Part)> {
        membership(&format!("4:memory:{path}\n0::/\n")).map(|m| (m.identity, m.part))
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
    fn other_groups_are_nobodys_pod() {
        for path in ["/", "/system.slice/cron.service", "/wardlet", "/wardlet/short", "/user.slice/podium"] {
            assert_eq!(found(path), None, "{path}");
        }
        assert_eq!(membership("nonsense"), None);
    }
}
