//! What pods get by default, from the kubelet's configuration.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ::node::kubelet::KubeletConfig;
use agent::{ClusterDns, DnsSettings, NodeFields, OomKill, PodDefaults};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// `clusterDNS`, `clusterDomain`, `resolvConf` and `seccompDefault` of a node with these addresses and allocatable resources.
pub(crate) fn pod_defaults(
    config: &KubeletConfig,
    addresses: &[IpAddr],
    allocatable: &BTreeMap<String, Quantity>,
) -> PodDefaults {
    let cluster = ClusterDns { servers: config.cluster_dns.clone(), node_ips: addresses.to_vec() };
    let file = config.resolv_conf.clone();
    let dns = DnsSettings {
        cluster: Some(cluster),
        domain: config.cluster_domain.clone().unwrap_or_default(),
        resolv_conf: (!file.as_os_str().is_empty()).then_some(file),
    };
    let oom_kill = match config.single_process_oom_kill {
        Some(true) => OomKill::Process,
        // As a kubelet: on cgroup v2; cgroup v1 has only the other.
        Some(false) | None => OomKill::Container,
    };
    PodDefaults {
        dns,
        seccomp_default: config.seccomp_default,
        oom_kill,
        node: node_fields(addresses, allocatable),
    }
}

fn node_fields(addresses: &[IpAddr], allocatable: &BTreeMap<String, Quantity>) -> NodeFields {
    let amount = |(name, amount): (&String, &Quantity)| Some((name.clone(), amount.0.parse().ok()?));
    NodeFields {
        host_ips: addresses.iter().map(ToString::to_string).collect(),
        allocatable: allocatable.iter().filter_map(amount).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ::node::kubelet::KubeletFlags;

    use super::*;

    #[test]
    fn defaults_are_what_the_kubelet_is_configured_with() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        let settings = |more: &str| {
            let kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
            std::fs::write(&file, format!("{kind}{more}")).unwrap();
            let loaded = KubeletConfig::load(Some(&file), None, &KubeletFlags::default()).unwrap();
            let allocatable = [("cpu".to_owned(), Quantity("1900m".to_owned()))].into();
            pod_defaults(&loaded.config, &["10.0.0.5".parse().unwrap()], &allocatable)
        };
        let plain = settings("");
        let file = Some(PathBuf::from("/etc/resolv.conf"));
        assert_eq!((plain.dns.domain.as_str(), plain.dns.resolv_conf), ("", file));
        assert!(!plain.seccomp_default);
        let set = settings(
            "clusterDomain: kube.test\nclusterDNS: [10.96.0.10]\nresolvConf: \"\"\nseccompDefault: true\n",
        );
        let cluster = ClusterDns {
            servers: vec!["10.96.0.10".parse().unwrap()],
            node_ips: vec!["10.0.0.5".parse().unwrap()],
        };
        let dns = DnsSettings { cluster: Some(cluster), domain: "kube.test".to_owned(), resolv_conf: None };
        let amounts = [("cpu".to_owned(), types::Quantity::from_thousandths(1900))];
        let node = NodeFields { host_ips: vec!["10.0.0.5".to_owned()], allocatable: amounts.into() };
        assert_eq!(set, PodDefaults { dns, seccomp_default: true, oom_kill: OomKill::Container, node });
        assert_eq!(settings("singleProcessOOMKill: true\n").oom_kill, OomKill::Process);
    }
}
