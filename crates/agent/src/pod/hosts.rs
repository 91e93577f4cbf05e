//! The text of a pod's /etc/hosts.

use admission::Hostname;
use manifest::k8s_openapi::api::core::v1::HostAlias;

/// The first line. Upstream's conformance tests know by it that the node has made the file.
const HEADER: &str = "# Kubernetes-managed hosts file.\n";
const HEADER_HOST_NETWORK: &str = "# Kubernetes-managed hosts file (host network).\n";
const LOCAL: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
    fe00::\tip6-localnet\nff00::\tip6-mcastprefix\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n";

/// The table of a pod with a network of its own: itself, by each of its addresses.
pub(crate) fn of_pod(named: &Hostname, ips: &[String]) -> String {
    let full = if named.domain.is_some() { format!("{}\t", named.full()) } else { String::new() };
    let own: String = ips.iter().map(|ip| format!("{ip}\t{full}{}\n", named.host)).collect();
    format!("{HEADER}{LOCAL}{own}")
}

/// The table of a pod in the host's network: that of the host.
pub(crate) fn of_node(table: &str) -> String {
    let end = if table.is_empty() || table.ends_with('\n') { "" } else { "\n" };
    format!("{HEADER_HOST_NETWORK}{table}{end}")
}

/// The entries of `hostAliases`, one line for each address.
pub(crate) fn aliases<'a>(aliases: impl Iterator<Item = &'a HostAlias>) -> String {
    let line = |alias: &HostAlias| {
        format!("{}\t{}\n", alias.ip, alias.hostnames.as_deref().unwrap_or_default().join("\t"))
    };
    let lines: String = aliases.map(line).collect();
    if lines.is_empty() { lines } else { format!("\n# Entries added by HostAliases.\n{lines}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_finds_itself_by_each_name_and_address() {
        let named = |domain: Option<&str>| Hostname { host: "web".into(), domain: domain.map(str::to_owned) };
        let ips = ["10.1.0.2", "fd00::2"].map(str::to_owned);
        let text = of_pod(&named(None), &ips);
        assert!(text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\t"), "{text}");
        assert!(text.ends_with("ip6-allrouters\n10.1.0.2\tweb\nfd00::2\tweb\n"), "{text}");
        let text = of_pod(&named(Some("db.shop.svc.kube.test")), &ips);
        assert!(text.contains("\n10.1.0.2\tweb.db.shop.svc.kube.test\tweb\n"), "{text}");
    }

    #[test]
    fn aliases_follow_the_table_whether_it_is_the_pods_or_the_nodes() {
        let text =
            r#"[{"ip":"10.0.0.9","hostnames":["a.test","b.test"]},{"ip":"fd00::9","hostnames":["c"]}]"#;
        let all: Vec<HostAlias> = serde_json::from_str(text).unwrap();
        let expected = "\n# Entries added by HostAliases.\n10.0.0.9\ta.test\tb.test\nfd00::9\tc\n";
        assert_eq!(aliases(all.iter()), expected);
        assert_eq!(aliases([].iter()), "");
        let node = of_node("127.0.0.1 localhost");
        assert_eq!(node, "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n");
    }
}
