use std::net::SocketAddr;
use std::path::PathBuf;

use kube::config::{KubeConfigOptions, Kubeconfig};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use testbed::{Part, Parts, Testbed, User, Validity, faults};

use crate::support::{Answer, Identity, OnePod, config, running, send, start};

struct Cluster {
    testbed: Testbed,
    dir: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Self {
        let testbed = Testbed::start(Parts::control_plane()).unwrap();
        Self { testbed, dir: tempfile::tempdir().unwrap() }
    }

    fn pki(&self, name: &str) -> PathBuf {
        self.testbed.kubeconfig().with_file_name(name)
    }

    fn identity(&self, stem: &str) -> Identity {
        Identity::files(&self.pki(&format!("{stem}.crt")), &self.pki(&format!("{stem}.key")))
    }

    fn kubectl(&self, arguments: &str) -> String {
        let output = self.testbed.command("kubectl").args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The token of a new service account that may do this with nodes.
    fn token(&self, name: &str, rule: Option<&str>) -> String {
        self.kubectl(&format!("create serviceaccount {name} -n default"));
        if let Some(rule) = rule {
            self.kubectl(&format!("create clusterrole {name} {rule}"));
            let account = format!("--serviceaccount=default:{name}");
            self.kubectl(&format!("create clusterrolebinding {name} --clusterrole={name} {account}"));
        }
        self.kubectl(&format!("create token {name} -n default"))
    }

    async fn node_client(&self) -> kube::Client {
        let kubeconfig = Kubeconfig::read_from(self.testbed.node_kubeconfig()).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        kube::Client::try_from(config.unwrap()).unwrap()
    }

    /// A server whose API server is this cluster's.
    async fn server(&self, fields: &str) -> kubelet_api::Server {
        let authority = self.pki("ca.crt");
        let fields = format!("authentication: {{x509: {{clientCAFile: {}}}}}\n{fields}", authority.display());
        let pod = OnePod::new(self.dir.path());
        pod.set(running(), 0);
        start(&config(self.dir.path(), &fields), self.dir.path(), self.node_client().await, pod).await
    }

    fn run<F: Future<Output = ()>>(&self, test: impl FnOnce() -> F + Send) {
        let in_runtime = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(test());
        };
        self.testbed.in_network(in_runtime).unwrap();
    }
}

async fn with_token(address: SocketAddr, path: &str, token: &str) -> Answer {
    let header = format!("Authorization: Bearer {token}\r\n");
    send(address, &Identity::default(), &format!("GET {path}"), &header).await
}

async fn status(address: SocketAddr, path: &str, identity: &Identity) -> u16 {
    send(address, identity, &format!("GET {path}"), "").await.status
}

/// A client of the same name and group as the API server's, signed by another authority.
fn of_another_authority() -> Identity {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "testbed-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver-kubelet-client");
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    Identity::pem(&certificate.pem(), &key.serialize_pem())
}

/// Where a process starts or a port is reached, as a WebSocket asks for it and as SPDY does.
const SESSIONS: [&str; 8] = [
    "GET /exec/shop/web/app?command=id&output=1",
    "POST /exec/shop/web/app?command=id&output=1",
    "POST /exec/shop/web/u-1/app?command=id&output=1",
    "GET /attach/shop/web/app?output=1",
    "POST /attach/shop/web/app?output=1",
    "GET /portForward/shop/web",
    "POST /portForward/shop/web",
    "POST /run/shop/web/app?cmd=id",
];

const PATHS: [&str; 5] = ["/healthz", "/pods", "/metrics", "/containerLogs/shop/web/app", "/unknown"];

#[test]
fn the_api_server_decides_on_every_path() {
    let cluster = Cluster::start();
    let without = cluster.token("without", None);
    let metrics = cluster.token("metrics", Some("--verb=get --resource=nodes/metrics"));
    let fine = cluster.token("fine", Some("--verb=get --resource=nodes/pods,nodes/healthz"));
    let proxy = cluster.token("proxy", Some("--verb=get --resource=nodes/proxy"));
    let expired = User {
        file: "late",
        common_name: "admin",
        organization: Some("system:masters"),
        validity: Validity::Expired,
    };
    cluster.testbed.user_kubeconfig(&expired).unwrap();
    let other_node = User {
        file: "node9",
        common_name: "system:node:node9",
        organization: Some("system:nodes"),
        validity: Validity::Valid,
    };
    cluster.testbed.user_kubeconfig(&other_node).unwrap();
    cluster.run(async || {
        let server = cluster.server("").await;
        let address = server.address.unwrap();
        let api_server = cluster.identity("apiserver-kubelet");
        let (none, other, late) = (Identity::default(), of_another_authority(), cluster.identity("late"));
        for path in PATHS {
            let expected = if path == "/unknown" { 404 } else { 200 };
            assert_eq!(status(address, path, &api_server).await, expected, "{path}");
            for (title, identity) in [("none", &none), ("another authority", &other), ("expired", &late)] {
                assert_eq!(status(address, path, identity).await, 401, "{title}: {path}");
            }
            // A server's certificate proves no client, and a node may not read another one.
            assert_eq!(status(address, path, &cluster.identity("kubelet-serving")).await, 401, "{path}");
            assert_eq!(status(address, path, &cluster.identity("node9")).await, 403, "{path}");
            assert_eq!(with_token(address, path, &without).await.status, 403, "{path}");
            assert_eq!(with_token(address, path, "not.a.token").await.status, 401, "{path}");
        }
        let allowed = async |token: &str| {
            let mut statuses = Vec::new();
            for path in PATHS {
                statuses.push(with_token(address, path, token).await.status);
            }
            statuses
        };
        assert_eq!(allowed(&metrics).await, [403, 403, 200, 403, 403]);
        assert_eq!(allowed(&fine).await, [200, 200, 403, 403, 403]);
        assert_eq!(allowed(&proxy).await, [200, 200, 403, 200, 404]);
        let words = with_token(address, "/pods", &without).await.body;
        assert_eq!(
            words,
            "Forbidden (user=system:serviceaccount:default:without, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"
        );
    });
}

/// Who may read all that the proxy shows may not run a command, whichever method the protocol has.
#[test]
fn only_who_may_create_has_sessions() {
    let cluster = Cluster::start();
    let rules = [
        ("none", None, 403),
        ("reads", Some("--verb=get,list,watch --resource=nodes/proxy"), 403),
        ("pods", Some("--verb=create --resource=nodes/pods,nodes/metrics,nodes/log,nodes/stats"), 403),
        // The container of this pod has no instance in a runtime.
        ("creates", Some("--verb=create --resource=nodes/proxy"), 500),
    ];
    let tokens = rules.map(|(name, rule, expected)| (name, cluster.token(name, rule), expected));
    cluster.run(async || {
        let server = cluster.server("").await;
        let address = server.address.unwrap();
        let upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
        for request in SESSIONS {
            let anonymous = send(address, &Identity::default(), request, upgrade).await;
            assert_eq!(anonymous.status, 401, "{request}");
            let node = send(address, &cluster.identity("kubelet-serving"), request, upgrade).await;
            assert_eq!(node.status, 401, "{request}");
            for (name, token, expected) in &tokens {
                let headers = format!("Authorization: Bearer {token}\r\n{upgrade}");
                let answer = send(address, &Identity::default(), request, &headers).await;
                let is_port = *expected == 500 && request.contains("portForward");
                assert!(answer.status == *expected || is_port, "{name}: {request}: {answer:?}");
            }
        }
    });
}

#[test]
fn while_the_api_server_is_away_only_known_answers_hold() {
    let cluster = Cluster::start();
    let reads = cluster.token("reads", Some("--verb=get --resource=nodes/metrics"));
    let fresh = cluster.token("fresh", Some("--verb=get --resource=nodes/metrics"));
    let allowed = "authorization: {webhook: {cacheAuthorizedTTL: 1h}}\n";
    cluster.run(async || {
        let server = cluster.server(allowed).await;
        let address = server.address.unwrap();
        assert_eq!(with_token(address, "/metrics", &reads).await.status, 200);
        faults::kill(&cluster.testbed, Part::Apiserver).unwrap();
        assert_eq!(with_token(address, "/metrics", &reads).await.status, 200, "a kept answer");
        assert_eq!(with_token(address, "/pods", &reads).await.status, 500, "another question");
        assert_eq!(with_token(address, "/metrics", &fresh).await.status, 401, "another token");
        let certificate = cluster.identity("apiserver-kubelet");
        let refused = send(address, &certificate, "GET /pods", "").await;
        assert_eq!(refused.status, 500);
        assert!(
            refused.body.starts_with("Authorization error (user=kube-apiserver-kubelet-client, "),
            "{refused:?}"
        );
        assert_eq!(status(address, "/pods", &Identity::default()).await, 401);
    });
}
