use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::subnet::Subnets;

/// How pods get their network.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The node's state directory; the network uses the directory `network` in it.
    pub state: PathBuf,
    /// How it is made.
    pub kind: Kind,
}

/// How the pods' network is made.
#[derive(Debug, Clone)]
pub enum Kind {
    /// The built-in bridge, with an address of its own for each pod.
    Bridge {
        /// The bridge's name. The nftables table has the same.
        name: String,
        /// Its subnets; `None`: what [`set_pod_cidr`](crate::Network::set_pod_cidr) says, and until then
        /// [`Subnets::DEFAULT`], or another of 10.244.0.0/16 where the host uses that or the bridge has another
        /// name than [`BRIDGE`].
        subnets: Option<Subnets>,
        /// The MTU; `None`: that of the device of the default route, else 1500.
        mtu: Option<u32>,
    },
    /// The built-in bridge of a cluster's node, with the subnets that
    /// [`set_pod_cidr`](crate::Network::set_pod_cidr) says: there is no network before, but for pods in the host's.
    ClusterBridge {
        /// As with [`Bridge`](Self::Bridge).
        name: String,
        /// As with [`Bridge`](Self::Bridge).
        mtu: Option<u32>,
    },
    /// CNI plugins.
    Cni {
        /// The directory of their configuration; the first file by name counts.
        conf_dir: PathBuf,
        /// The directories of their programs.
        bin_dirs: Vec<PathBuf>,
    },
    /// No network: pods have loopback only.
    None,
}

/// Where CNI plugins are configured by default.
pub const CNI_CONF_DIR: &str = "/etc/cni/net.d";
/// Where the programs of CNI plugins are by default.
pub const CNI_BIN_DIRS: [&str; 2] = ["/opt/cni/bin", "/usr/lib/cni"];

/// The default name of the bridge.
pub const BRIDGE: &str = "wardlet0";

impl Default for Kind {
    fn default() -> Self {
        Self::Bridge { name: BRIDGE.to_owned(), subnets: None, mtu: None }
    }
}

impl Kind {
    /// The network of a cluster's node: the built-in bridge gets the subnets of the cluster. A kind with settings of its own
    /// stays.
    #[must_use]
    pub fn of_cluster_node(self) -> Self {
        match self {
            Self::Bridge { name, subnets: None, mtu } => Self::ClusterBridge { name, mtu },
            other => other,
        }
    }

    /// The kernel's rules for names of devices, and some of ours.
    pub(crate) fn check(&self) -> Result<()> {
        let (Self::Bridge { name, mtu, .. } | Self::ClusterBridge { name, mtu }) = self else {
            return Ok(());
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || name.len() > 15 || !name.bytes().all(plain) {
            return Err(Error::DeviceName { name: name.clone() });
        }
        match mtu {
            Some(mtu) if !(1280..=65_535).contains(mtu) => Err(Error::Mtu { mtu: *mtu }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bridge(name: &str, mtu: Option<u32>) -> Kind {
        Kind::Bridge { name: name.to_owned(), subnets: None, mtu }
    }

    #[test]
    fn a_node_of_a_cluster_has_the_clusters_subnets_unless_it_has_its_own() {
        let plain = Kind::default().of_cluster_node();
        assert!(matches!(plain, Kind::ClusterBridge { name, mtu: None } if name == BRIDGE));
        let set = Kind::Bridge { name: "a".into(), subnets: Some(Subnets::DEFAULT), mtu: None };
        assert!(matches!(set.of_cluster_node(), Kind::Bridge { subnets: Some(_), .. }));
        assert!(matches!(Kind::None.of_cluster_node(), Kind::None));
    }

    #[test]
    fn names_and_sizes_that_cannot_be_are_refused() {
        Kind::default().check().unwrap();
        bridge("br-0_a", Some(9000)).check().unwrap();
        for name in ["", "a-name-that-is-too-long", "a/b", "a b", ".."] {
            assert!(bridge(name, None).check().is_err(), "{name}");
        }
        assert!(bridge("br0", Some(1000)).check().is_err());
    }
}
