//! What a testbed can be made of.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// One daemon. The order is the order of starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// etcd, without fsync.
    Etcd,
    /// kube-apiserver with RBAC, the Node authorizer and NodeRestriction.
    Apiserver,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// The OCI registry three times over one store: anonymous, basic and token; with its fault proxy.
    Registry,
    /// containerd with its runc shim.
    Containerd,
    /// A proxy before containerd that records CRI requests; the kubelet of a testbed with one goes through it.
    Recorder,
    /// The kubelet of node0.
    Kubelet,
}

impl Part {
    /// All, in the order of starting.
    pub const ALL: [Self; 8] = [
        Self::Etcd,
        Self::Apiserver,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Registry,
        Self::Containerd,
        Self::Recorder,
        Self::Kubelet,
    ];

    /// Its name on the command line and in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "apiserver",
            Self::ControllerManager => "controller-manager",
            Self::Scheduler => "scheduler",
            Self::Registry => "registry",
            Self::Containerd => "containerd",
            Self::Recorder => "recorder",
            Self::Kubelet => "kubelet",
        }
    }

    /// What it cannot be without.
    fn needs(self) -> &'static [Self] {
        match self {
            Self::Apiserver => &[Self::Etcd],
            Self::ControllerManager | Self::Scheduler => &[Self::Etcd, Self::Apiserver],
            Self::Kubelet => &[Self::Etcd, Self::Apiserver, Self::Containerd],
            Self::Recorder => &[Self::Containerd],
            Self::Etcd | Self::Registry | Self::Containerd => &[],
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| Error::Unknown {
            kind: "part",
            name: name.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// A subset, closed under what its members need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts(Vec<Part>);

impl Parts {
    /// Those parts and what they need.
    #[must_use]
    pub fn of(wanted: &[Part]) -> Self {
        let holds = |part: &Part| wanted.iter().any(|one| one == part || one.needs().contains(part));
        Self(Part::ALL.into_iter().filter(holds).collect())
    }

    /// etcd and the API server.
    #[must_use]
    pub fn control_plane() -> Self {
        Self::of(&[Part::Apiserver])
    }

    /// A whole node: everything but the registry.
    #[must_use]
    pub fn node() -> Self {
        Self::of(&[Part::ControllerManager, Part::Scheduler, Part::Kubelet])
    }

    /// Whether `part` is among them.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        self.0.contains(&part)
    }

    /// In the order of starting.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Part> + '_ {
        self.0.iter().copied()
    }
}

/// Which containerd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Containerd {
    /// 2.4 with runc 1.5, built from their modules.
    #[default]
    Pinned,
    /// Debian's 1.6 with runc 1.1.
    Debian,
    /// None: our own runtime in its place, on its socket.
    Wardlet,
}

/// What the node runs in the role of the kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum NodeAgent {
    /// The real one.
    #[default]
    Kubelet,
    /// `wardlet agent` with the same configuration and credentials. With [`Containerd::Wardlet`] its built-in runtime
    /// runs in its own process, and nothing listens on containerd's socket.
    Wardlet,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_brings_what_it_needs_and_starts_last() {
        let parts: Vec<_> = Parts::of(&[Part::Kubelet]).iter().collect();
        assert_eq!(parts, [Part::Etcd, Part::Apiserver, Part::Containerd, Part::Kubelet]);
    }

    #[test]
    fn every_name_reads_back_as_its_part() {
        for part in Part::ALL {
            assert_eq!(part.name().parse::<Part>().expect("known"), part);
        }
        assert!("kublet".parse::<Part>().is_err());
    }
}
