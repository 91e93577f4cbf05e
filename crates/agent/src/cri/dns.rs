//! DNS configuration of a pod.

use std::collections::BTreeMap;
use std::path::Path;

use cri::DnsConfig;
use manifest::k8s_openapi::api::core::v1::PodSpec;

/// Maximum number of name servers, as in resolv.conf(5).
const SERVERS: usize = 3;
const SEARCHES: usize = 32;

/// The DNS configuration by the pod's dnsPolicy. There is no cluster DNS, so `ClusterFirst` is the node's
/// configuration, as in a kubelet without cluster DNS.
pub(crate) fn of(spec: &PodSpec, resolv_conf: &Path) -> DnsConfig {
    let mut config = match spec.dns_policy.as_deref() {
        Some("None") => DnsConfig::default(),
        _ => parsed(&std::fs::read_to_string(resolv_conf).unwrap_or_default()),
    };
    if let Some(own) = &spec.dns_config {
        extend(&mut config.servers, own.nameservers.iter().flatten());
        extend(&mut config.searches, own.searches.iter().flatten());
        let mut options: BTreeMap<String, String> = config.options.iter().map(|o| split(o)).collect();
        for option in own.options.iter().flatten() {
            options.insert(option.name.clone().unwrap_or_default(), option.value.clone().unwrap_or_default());
        }
        config.options = options.into_iter().map(|(name, value)| joined(name, &value)).collect();
    }
    config.servers.truncate(SERVERS);
    config.searches.truncate(SEARCHES);
    config
}

fn extend<'a>(list: &mut Vec<String>, more: impl Iterator<Item = &'a String>) {
    for one in more {
        if !list.contains(one) {
            list.push(one.clone());
        }
    }
}

fn split(option: &str) -> (String, String) {
    let (name, value) = option.split_once(':').unwrap_or((option, ""));
    (name.to_owned(), value.to_owned())
}

fn joined(name: String, value: &str) -> String {
    if value.is_empty() { name } else { format!("{name}:{value}") }
}

fn parsed(text: &str) -> DnsConfig {
    let mut config = DnsConfig::default();
    for line in text.lines().filter(|line| !line.starts_with(['#', ';'])) {
        let mut words = line.split_whitespace().map(str::to_owned);
        match words.next().as_deref() {
            Some("nameserver") => config.servers.extend(words.next()),
            // The last `search` line is used, as in resolv.conf(5).
            Some("search") => config.searches = words.collect(),
            Some("options") => config.options.extend(words),
            _ => {}
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_own_words_come_after_the_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("resolv.conf");
        std::fs::write(&file, "# x\nnameserver 10.0.0.1\nsearch a b\noptions ndots:2 rotate\n").unwrap();
        let text = r#"{"containers":[],"dnsConfig":{"nameservers":["10.0.0.1","10.0.0.2"],"searches":["c"],
            "options":[{"name":"ndots","value":"5"}]}}"#;
        let mut spec: PodSpec = serde_json::from_str(text).unwrap();
        let config = of(&spec, &file);
        assert_eq!(config.servers, ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(config.searches, ["a", "b", "c"]);
        assert_eq!(config.options, ["ndots:5", "rotate"]);
        spec.dns_policy = Some("None".into());
        assert_eq!(of(&spec, &file).servers, ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(of(&spec, &file).searches, ["c"]);
    }
}
