use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

use crate::pod::{HostPort, Pod};
use crate::subnet::Subnets;

/// The version that is written.
const VERSION: u32 = 1;

/// A pod's lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) version: u32,
    /// The sandbox's ID.
    pub(crate) sandbox: String,
    /// The pod's namespace and name, for messages.
    pub(crate) pod: String,
    /// Its addresses; the first is the IPv4 address that the file is named after.
    pub(crate) addresses: Vec<IpAddr>,
    /// The subnets of the addresses: a pod keeps them when the node's subnets change.
    pub(crate) subnets: Subnets,
    pub(crate) host_ports: Vec<HostPort>,
}

impl durable::Record for Record {
    const VERSION: u32 = VERSION;
}

impl Record {
    pub(super) fn new(pod: &Pod, subnets: Subnets, number: u32) -> Self {
        Self {
            version: VERSION,
            sandbox: pod.id.clone(),
            pod: format!("{}/{}", pod.namespace, pod.name),
            addresses: subnets.of_pod(number),
            subnets,
            host_ports: pod.host_ports.clone(),
        }
    }

    /// The IPv4 address.
    pub(crate) fn address(&self) -> Option<Ipv4Addr> {
        match self.addresses.first() {
            Some(IpAddr::V4(address)) => Some(*address),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As version 1 is on disk: it is read for ever.
    const V1: &str = r#"{"version":1,"sandbox":"0123456789abcdef","pod":"default/web","addresses":["10.9.0.2","fd00:9::2"],"subnets":"10.9.0.0/24,fd00:9::/64","hostPorts":[{"protocol":"tcp","hostIp":null,"hostPort":8080,"containerPort":80},{"protocol":"sctp","hostIp":"192.0.2.1","hostPort":9,"containerPort":9}]}"#;

    #[test]
    fn a_lease_of_version_1_is_read_and_written_as_it_is() {
        let record: Record = serde_json::from_str(V1).unwrap();
        assert_eq!(record.address(), Some(Ipv4Addr::new(10, 9, 0, 2)));
        assert_eq!(record.host_ports.len(), 2);
        assert_eq!(serde_json::to_string(&record).unwrap(), V1);
    }
}
