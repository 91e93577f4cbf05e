//! Which clients may do what on port 10250: each path, method and identity at a real kubelet and at `wardlet agent`, both with the
//! same API server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use testbed::{Part, Parts, Testbed, User, Validity, faults};
use testkit::wait_until;

use crate::agent_status;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// Every path of a kubelet, of both kinds: with a subresource of its own, and without. The pod does not exist, so that a client that
/// may use the path is answered that, and starts nothing.
const PATHS: [&str; 32] = [
    "/",
    "/unknown",
    "/healthz",
    "/healthz/ping",
    "/healthz/unknown",
    "/pods",
    "/pods/",
    "/podsandmore",
    "/runningpods/",
    "/allocatedPods",
    "/configz",
    "/flagz",
    "/statusz",
    "/stats",
    "/stats/summary?only_cpu_and_memory=true",
    "/metrics",
    "/metrics/cadvisor",
    "/metrics/resource",
    "/metrics/probes",
    "/metrics/slis",
    "/metrics/unknown",
    "/logs/",
    "/logs/unknown",
    "/checkpoint/default/none/app",
    "/containerLogs/default/none/app",
    "/exec/default/none/app?command=id&output=1",
    "/exec/default/none/uid/app?command=id&output=1",
    "/attach/default/none/app?output=1",
    "/portForward/default/none",
    "/run/default/none/app?cmd=id",
    "/debug/pprof/cmdline",
    "/debug/flags/v",
];

/// Where a kubelet decides otherwise, and why.
const DIFFERENCES: [(&str, &str); 1] = [(
    "a session that is asked for with GET",
    "the right to get `nodes/proxy` runs commands at a kubelet; here the right to create is needed, whatever the method",
)];

/// Whether a request is one of [`DIFFERENCES`].
fn is_known(method: &str, path: &str, identity: &str) -> bool {
    let is_session =
        ["/exec/", "/attach/", "/portForward/", "/run/"].iter().any(|start| path.starts_with(start));
    assert_eq!(DIFFERENCES.len(), 1, "one kind of difference is known");
    // Of both identities one has only the one right, and one only the other.
    method == "GET" && is_session && ["may get proxy", "may create proxy"].contains(&identity)
}

/// What a client proves its identity with: lines of a configuration of curl.
struct Identity {
    title: &'static str,
    lines: String,
}

impl Identity {
    fn certificate(title: &'static str, stem: &Path) -> Self {
        let file = |extension| stem.with_extension(extension).display().to_string();
        let lines = format!("cert = \"{}\"\nkey = \"{}\"\n", file("crt"), file("key"));
        Self { title, lines }
    }

    fn token(title: &'static str, token: &str) -> Self {
        Self { title, lines: format!("header = \"Authorization: Bearer {token}\"\n") }
    }
}

fn kubectl(testbed: &Testbed, words: &str) -> String {
    let output = testbed.command("kubectl").args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The token of a new service account with this right on nodes.
fn token(testbed: &Testbed, name: &str, rule: Option<&str>) -> String {
    kubectl(testbed, &format!("create serviceaccount {name} -n default"));
    if let Some(rule) = rule {
        kubectl(testbed, &format!("create clusterrole {name} {rule}"));
        let account = format!("--serviceaccount=default:{name}");
        kubectl(testbed, &format!("create clusterrolebinding {name} --clusterrole={name} {account}"));
    }
    kubectl(testbed, &format!("create token {name} -n default --duration=1h"))
}

/// A client certificate of an administrator, signed by another authority of the same name.
fn of_another_authority(dir: &Path) -> PathBuf {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "testbed-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "admin");
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let stem = dir.join("foreign");
    std::fs::write(stem.with_extension("crt"), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    std::fs::write(stem.with_extension("key"), key.serialize_pem()).unwrap();
    stem
}

fn identities(testbed: &Testbed, dir: &Path) -> Vec<Identity> {
    let pki = |name: &str| testbed.kubeconfig().with_file_name(name);
    let expired = User {
        file: "late",
        common_name: "admin",
        organization: Some("system:masters"),
        validity: Validity::Expired,
    };
    testbed.user_kubeconfig(&expired).unwrap();
    let other_node = User {
        file: "node9",
        common_name: "system:node:node9",
        organization: Some("system:nodes"),
        validity: Validity::Valid,
    };
    testbed.user_kubeconfig(&other_node).unwrap();
    let with = |title, name: &str, rule| Identity::token(title, &token(testbed, name, rule));
    vec![
        Identity::certificate("admin", &pki("admin.crt")),
        Identity::certificate("the API server", &pki("apiserver-kubelet.crt")),
        Identity { title: "anonymous", lines: String::new() },
        Identity::certificate("another authority", &of_another_authority(dir)),
        Identity::certificate("expired", &pki("late.crt")),
        Identity::certificate("a server's certificate", &pki("kubelet-serving.crt")),
        Identity::certificate("another node", &pki("node9.crt")),
        Identity::token("no token", "not.a.token"),
        with("no rights", "none", None),
        with("may get metrics", "metrics", Some("--verb=get --resource=nodes/metrics")),
        with(
            "may get what is fine-grained",
            "fine",
            Some(
                "--verb=get --resource=nodes/pods,nodes/healthz,nodes/configz,nodes/stats,nodes/log,nodes/statusz",
            ),
        ),
        with("may get proxy", "reads", Some("--verb=get --resource=nodes/proxy")),
        with("may create proxy", "creates", Some("--verb=create --resource=nodes/proxy")),
        with("may list nodes", "lists", Some("--verb=get,list,watch --resource=nodes")),
    ]
}

/// How a request was answered, as far as it concerns rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Unauthorized,
    Forbidden,
    Allowed(u16),
}

impl Decision {
    fn of(status: u16) -> Self {
        match status {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            status => Self::Allowed(status),
        }
    }

    fn is_as(self, other: Self) -> bool {
        matches!((self, other), (Self::Allowed(_), Self::Allowed(_))) || self == other
    }
}

/// By identity, method and path.
type Table = BTreeMap<(&'static str, &'static str, &'static str), Decision>;

/// Asks a node for everything, as each identity.
fn table(testbed: &Testbed, identities: &[Identity], dir: &Path) -> Table {
    let mut table = Table::new();
    for Identity { title, lines } in identities {
        let requests: Vec<_> = PATHS.iter().flat_map(|path| METHODS.map(|method| (method, *path))).collect();
        let of_request = |(method, path): &(&str, &str)| {
            let is_session =
                ["/exec/", "/attach/", "/portForward/"].iter().any(|start| path.starts_with(start));
            let upgrade = "header = \"Connection: Upgrade\"\nheader = \"Upgrade: SPDY/3.1\"\n\
                           header = \"X-Stream-Protocol-Version: v4.channel.k8s.io\"\n";
            let upgrade = if is_session { upgrade } else { "" };
            format!(
                "url = \"https://10.240.0.10:10250{path}\"\nrequest = \"{method}\"\ninsecure\nsilent\nhttp1.1\n\
                 max-time = 60\noutput = \"/dev/null\"\nwrite-out = \"%{{http_code}}\\n\"\n{lines}{upgrade}"
            )
        };
        let config: Vec<String> = requests.iter().map(of_request).collect();
        let file = dir.join("curl");
        std::fs::write(&file, config.join("next\n")).unwrap();
        let output = testbed.command("curl").arg("--config").arg(&file).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let statuses: Vec<u16> = said.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(statuses.len(), requests.len(), "{title}: {}", String::from_utf8_lossy(&output.stderr));
        for ((method, path), status) in requests.into_iter().zip(statuses) {
            assert_ne!(status, 0, "{title}: {method} {path} has no answer");
            table.insert((*title, method, path), Decision::of(status));
        }
    }
    table
}

#[test]
fn every_path_method_and_identity_is_decided_on_as_by_a_kubelet() {
    let testbed = Testbed::start(Parts::of(&[Part::Kubelet])).unwrap();
    let dir = tempfile::Builder::new().prefix("wa").tempdir_in("/var/tmp").unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(dir.path(), open).unwrap();
    let mut identities = identities(&testbed, dir.path());
    let own =
        |stem: &str| Identity::certificate("the node itself", &testbed.kubeconfig().with_file_name(stem));
    identities.push(own("kubelet.crt"));
    let kubelet = table(&testbed, &identities, dir.path());
    faults::kill(&testbed, Part::Kubelet).unwrap();
    let _agent = agent_status::agent(&testbed, dir.path());
    wait_until("the agent answers", || {
        let mut curl = testbed.command("curl");
        let url = "https://10.240.0.10:10250/healthz";
        let output =
            curl.args(["-sk", "--max-time", "5", "-o", "/dev/null", "-w", "%{http_code}", url]).output();
        output.unwrap().stdout == b"401"
    });
    identities.pop();
    identities.push(own(&format!("{}.crt", agent_status::AGENT)));
    let agent = table(&testbed, &identities, dir.path());

    let mut differences = Vec::new();
    for (key, theirs) in &kubelet {
        let ours = agent[key];
        let (identity, method, path) = *key;
        let is_known = is_known(method, path, identity);
        if ours.is_as(*theirs) == is_known {
            let what = if is_known { "no longer differs" } else { "differs" };
            differences
                .push(format!("{identity}: {method} {path} {what}: kubelet {theirs:?}, agent {ours:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    for (key, decision) in &agent {
        let expected = match key.0 {
            "admin" | "the API server" => matches!(decision, Decision::Allowed(_)),
            "anonymous" | "another authority" | "expired" | "a server's certificate" | "no token" => {
                *decision == Decision::Unauthorized
            }
            "another node" | "the node itself" | "no rights" | "may list nodes" => {
                *decision == Decision::Forbidden
            }
            // Compared with the kubelet above.
            _ => true,
        };
        assert!(expected, "{key:?}: {decision:?}");
    }
    // The rights of the rest are the narrow ones that they seem.
    let allowed = |identity: &str| {
        let of = |(key, decision): (&(&str, &str, &str), &Decision)| {
            (key.0 == identity && matches!(decision, Decision::Allowed(_)))
                .then(|| format!("{} {}", key.1, key.2))
        };
        agent.iter().filter_map(of).collect::<Vec<_>>()
    };
    let metrics = allowed("may get metrics");
    assert!(
        metrics.len() == 6 && metrics.iter().all(|request| request.starts_with("GET /metrics")),
        "{metrics:?}"
    );
    let reads = allowed("may get proxy");
    for session in ["/exec/", "/attach/", "/portForward/", "/run/"] {
        assert!(!reads.iter().any(|request| request.contains(session)), "{reads:?}");
    }
}
