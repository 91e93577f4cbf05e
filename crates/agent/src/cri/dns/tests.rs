use super::*;

/// A node with this resolv.conf, in a cluster with these servers.
struct Case {
    dir: tempfile::TempDir,
    settings: DnsSettings,
}

impl Case {
    fn new(resolv_conf: &str, servers: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("resolv.conf");
        std::fs::write(&file, resolv_conf).unwrap();
        let servers = servers.iter().map(|server| server.parse().unwrap()).collect();
        let cluster = Some(ClusterDns { servers, node_ips: Vec::new() });
        let settings = DnsSettings { cluster, domain: "kube.test".to_owned(), resolv_conf: Some(file) };
        Self { dir, settings }
    }

    fn of(&self, fields: &str) -> PodDns {
        let context = PodContext::for_test(&format!(r#"{{"containers":[]{fields}}}"#));
        self.settings.of_pod(&context).unwrap()
    }
}

fn lines(dns: &PodDns) -> [String; 3] {
    [&dns.config.servers, &dns.config.searches, &dns.config.options].map(|words| words.join(" "))
}

const NODE: &str = "nameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch node.test kube.test\noptions rotate\n";
const OWN: &str = r#","dnsConfig":{"nameservers":["10.0.0.2","10.9.9.9"],"searches":["own.test"],
    "options":[{"name":"ndots","value":"2"},{"name":"edns0"}]}"#;

#[test]
fn each_policy_begins_with_another_configuration() {
    let case = Case::new(NODE, &["10.96.0.10", "fd00::0:a"]);
    let cluster = ["10.96.0.10 fd00::a", "shop.svc.kube.test svc.kube.test kube.test node.test", "ndots:5"];
    let node = ["10.0.0.1 10.0.0.2", "node.test kube.test", "rotate"];
    let table: [(&str, [&str; 3]); 10] = [
        ("", cluster),
        (r#","dnsPolicy":"ClusterFirst""#, cluster),
        (r#","dnsPolicy":"ClusterFirstWithHostNet""#, cluster),
        (r#","dnsPolicy":"ClusterFirstWithHostNet","hostNetwork":true"#, cluster),
        (r#","dnsPolicy":"ClusterFirst","hostNetwork":true"#, node),
        (r#","hostNetwork":true"#, node),
        (r#","dnsPolicy":"Default""#, node),
        (r#","dnsPolicy":"Default","hostNetwork":true"#, node),
        (r#","dnsPolicy":"None""#, ["", "", ""]),
        (r#","dnsPolicy":"Unknown""#, cluster),
    ];
    for (fields, expected) in table {
        let found = case.of(fields);
        assert_eq!(lines(&found), expected, "{fields}");
        assert_eq!(found.problems, [], "{fields}");
    }
}

#[test]
fn a_pods_own_words_come_after_and_its_options_replace_others() {
    let case = Case::new(NODE, &["10.96.0.10"]);
    let searches = "shop.svc.kube.test svc.kube.test kube.test node.test own.test";
    let found = case.of(OWN);
    assert_eq!(lines(&found), ["10.96.0.10 10.0.0.2 10.9.9.9", searches, "ndots:2 edns0"]);
    let found = case.of(&format!(r#","dnsPolicy":"Default"{OWN}"#));
    assert_eq!(
        lines(&found),
        ["10.0.0.1 10.0.0.2 10.9.9.9", "node.test kube.test own.test", "rotate ndots:2 edns0"]
    );
    let found = case.of(&format!(r#","dnsPolicy":"None"{OWN}"#));
    assert_eq!(lines(&found), ["10.0.0.2 10.9.9.9", "own.test", "ndots:2 edns0"]);
    assert_eq!(found.problems, []);
}

#[test]
fn without_cluster_dns_a_pod_has_the_nodes_and_is_told_so_where_there_is_a_cluster() {
    let mut case = Case::new(NODE, &[]);
    let node = ["10.0.0.1 10.0.0.2", "node.test kube.test", "rotate"];
    let found = case.of("");
    assert_eq!(lines(&found), node);
    let text = "pod: \"web_shop(u-1)\". kubelet does not have ClusterDNS IP configured and cannot create Pod using \
                \"ClusterFirst\" policy. Falling back to \"Default\" policy.";
    let said: Vec<_> = found.problems.iter().map(|one| (one.reason(), one.to_string())).collect();
    assert_eq!(said, [("MissingClusterDNS", text.to_owned())]);
    assert_eq!(case.of(r#","dnsPolicy":"Default""#).problems, []);
    case.settings.cluster = None;
    let found = case.of("");
    assert_eq!((lines(&found), found.problems.len()), (node.map(str::to_owned), 0));
}

#[test]
fn more_than_the_limits_is_left_out_and_said() {
    let many = |count: usize, of: &dyn Fn(usize) -> String| (0..count).map(of).collect::<Vec<_>>();
    let servers: String = many(4, &|n| format!("nameserver 10.0.0.{n}\n")).concat();
    let found = Case::new(&servers, &[]).of(r#","dnsPolicy":"Default""#);
    assert_eq!(found.config.servers, ["10.0.0.0", "10.0.0.1", "10.0.0.2"]);
    assert_eq!(found.problems, [DnsProblem::Servers(found.config.servers.clone())]);
    assert_eq!(found.problems[0].reason(), "DNSConfigForming");
    assert!(
        found.problems[0].to_string().ends_with("the applied nameserver line is: 10.0.0.0 10.0.0.1 10.0.0.2")
    );

    // How many domains, how long each is: how many of them stay, after the three of the cluster.
    for (count, length, stay) in
        [(29, 5, 29), (30, 5, 29), (7, 253, 7), (8, 253, 7), (5, 254, 0), (2, 253, 2)]
    {
        let domains = many(count, &|n| format!("{n:0>length$}"));
        let case = Case::new(&format!("search {}\n", domains.join(" ")), &["10.96.0.10"]);
        let found = case.of("");
        assert_eq!(found.config.searches[3..], domains[..stay], "{count} of {length}");
        let expected = (stay < count).then(|| DnsProblem::Searches(found.config.searches.clone()));
        assert_eq!(found.problems, Vec::from_iter(expected), "{count} of {length}");
        assert!(found.config.searches.join(" ").len() <= 2048);
    }
}

#[test]
fn without_a_domain_or_a_resolv_conf_nothing_of_them_is_in_it() {
    let mut case = Case::new(NODE, &["10.96.0.10"]);
    case.settings.domain.clear();
    assert_eq!(lines(&case.of("")), ["10.96.0.10", "node.test kube.test", "ndots:5"]);
    case.settings.resolv_conf = None;
    assert_eq!(lines(&case.of("")), ["10.96.0.10", "", "ndots:5"]);
    let node = r#","dnsPolicy":"Default""#;
    assert_eq!(lines(&case.of(node)), ["127.0.0.1", ".", ""]);
    let node_ips = ["10.0.0.5", "fd00::5"].map(|ip| ip.parse().unwrap()).to_vec();
    case.settings.cluster = Some(ClusterDns { servers: Vec::new(), node_ips });
    assert_eq!(lines(&case.of(node)), ["127.0.0.1 ::1", ".", ""]);
}

#[test]
fn a_resolv_conf_that_is_missing_is_an_error_in_a_cluster_only() {
    let mut case = Case::new("", &["10.96.0.10"]);
    case.settings.resolv_conf = Some(case.dir.path().join("none"));
    let context = PodContext::for_test(r#"{"containers":[]}"#);
    let error = case.settings.of_pod(&context).unwrap_err().to_string();
    assert!(error.contains("none"), "{error}");
    let own = PodContext::for_test(r#"{"containers":[],"dnsPolicy":"None"}"#);
    assert_eq!(case.settings.of_pod(&own).unwrap(), PodDns::default());
    case.settings.cluster = None;
    assert_eq!(case.settings.of_pod(&context).unwrap(), PodDns::default());
}
