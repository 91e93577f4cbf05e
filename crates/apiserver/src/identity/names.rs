//! The names and addresses that a serving certificate is for.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Node;
use rcgen::SanType;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;

/// The names and addresses of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) dns: BTreeSet<String>,
    pub(super) addresses: BTreeSet<IpAddr>,
}

impl Names {
    /// Those that the Node's status has.
    pub(super) fn of(node: &Node) -> Self {
        let mut names = Self::default();
        let all = node.status.as_ref().and_then(|status| status.addresses.as_ref());
        for one in all.into_iter().flatten() {
            match (one.type_.as_str(), one.address.parse()) {
                (_, Ok(address)) => drop(names.addresses.insert(address)),
                ("Hostname" | "InternalDNS" | "ExternalDNS", Err(_)) if !one.address.is_empty() => {
                    names.dns.insert(one.address.clone());
                }
                _ => {}
            }
        }
        names
    }

    /// Those of the first certificate of a PEM text.
    pub(super) fn of_certificate(pem: &str) -> Self {
        let mut names = Self::default();
        let block = Pem::iter_from_buffer(pem.as_bytes()).next().and_then(Result::ok);
        let Some(parsed) = block.as_ref().and_then(|block| block.parse_x509().ok()) else { return names };
        let found = parsed.subject_alternative_name().ok().flatten();
        for one in found.iter().flat_map(|extension| &extension.value.general_names) {
            match one {
                GeneralName::DNSName(name) => drop(names.dns.insert((*name).to_owned())),
                GeneralName::IPAddress(bytes) => names.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        names
    }

    /// Whether all of `others` are among these.
    pub(super) fn cover(&self, others: &Self) -> bool {
        others.dns.is_subset(&self.dns) && others.addresses.is_subset(&self.addresses)
    }

    /// As a certificate has them.
    pub(super) fn alternatives(&self) -> Result<Vec<SanType>, rcgen::Error> {
        let dns = self.dns.iter().map(|name| Ok(SanType::DnsName(name.as_str().try_into()?)));
        dns.chain(self.addresses.iter().map(|address| Ok(SanType::IpAddress(*address)))).collect()
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let short = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    short.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_certificate_covers_the_addresses_that_it_was_made_for() {
        let node = |addresses: serde_json::Value| {
            let node = json!({"metadata": {"name": "a"}, "status": {"addresses": addresses}});
            Names::of(&serde_json::from_value(node).unwrap())
        };
        let names = node(json!([
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "InternalIP", "address": "fd00::1"},
            {"type": "Hostname", "address": "node-1"},
            {"type": "Hostname", "address": "10.0.0.2"},
        ]));
        assert_eq!((names.dns.len(), names.addresses.len()), (1, 3));
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = names.alternatives().unwrap();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        assert_eq!(Names::of_certificate(&certificate), names);
        let more = node(json!([{"type": "ExternalIP", "address": "192.0.2.1"}]));
        assert!(names.cover(&Names::default()) && !names.cover(&more));
    }
}
