//! The identity of a node, with the signer and the approver of a real controller manager. Certificates live for 90 seconds.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use apiserver::client::{ApiError, Clients, ErrorKind};
use apiserver::identity::{IdentityError, NodeIdentity};
use apiserver::lease::{self, LeaseTiming, NAMESPACE};
use apiserver::node::spawn;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use testbed::{Part, Parts, Testbed, faults, yardstick};
use tokio::sync::watch;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

use crate::support::{OFTEN, admin, eventually, is_ready, node_kubeconfig, ready, run, settings, until};

/// The signer lets the validity begin five minutes early, so that 77 % of the lifetime have passed when a certificate is
/// issued: a renewal begins at once or within 51 seconds, and has at least 39 seconds.
const LIFETIME: &str = "90s";

/// A token whose requests are approved, one whose requests wait, and one that may request nothing.
const APPROVED: &str = "aaaaaa.0123456789abcdef";
const WAITING: &str = "bbbbbb.0123456789abcdef";
const POWERLESS: &str = "cccccc.0123456789abcdef";

fn cluster() -> &'static Testbed {
    static CLUSTER: OnceLock<Testbed> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let mut testbed = Testbed::start(Parts::of(&[Part::ControllerManager])).unwrap();
        faults::kill(&testbed, Part::ControllerManager).unwrap();
        let script = format!("exec \"$@\" --cluster-signing-duration={LIFETIME}");
        let wrapper = ["sh", "-c", &script, "sh"].map(str::to_owned);
        testbed.restart_under(Part::ControllerManager, &wrapper).unwrap();
        let group = |name: &str| json!({"kind": "Group", "name": format!("system:bootstrappers:{name}")});
        let renews = json!({"kind": "User", "name": "system:node:renewed"});
        let approves = "system:certificates.k8s.io:certificatesigningrequests";
        for (name, role, subjects) in [
            (
                "bootstrap",
                "system:node-bootstrapper".to_owned(),
                json!([group("approved"), group("waiting")]),
            ),
            ("first", format!("{approves}:nodeclient"), json!([group("approved")])),
            ("next", format!("{approves}:selfnodeclient"), json!([renews])),
        ] {
            apply(&testbed, &binding(name, &role, &subjects));
        }
        for (token, name) in [(APPROVED, "approved"), (WAITING, "waiting"), (POWERLESS, "powerless")] {
            apply(&testbed, &secret(token, name));
        }
        testbed
    })
}

fn apply(testbed: &Testbed, object: &Value) {
    yardstick::apply(testbed, &object.to_string()).unwrap();
}

fn binding(name: &str, role: &str, subjects: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    })
}

fn secret(token: &str, group: &str) -> Value {
    let (id, secret) = token.split_once('.').unwrap();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
        "stringData": {
            "token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
            "auth-extra-groups": format!("system:bootstrappers:{group}"),
        },
    })
}

/// A machine that has nothing but a bootstrap kubeconfig.
struct Machine {
    dir: tempfile::TempDir,
    identity: NodeIdentity,
}

impl Machine {
    fn new(name: &str, token: &str, rotates: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |file: &str| dir.path().join(file);
        let authority = cluster().kubeconfig().with_file_name("ca.crt");
        fs::write(path("bootstrap.conf"), bootstrap_kubeconfig(&authority, token)).unwrap();
        let identity = NodeIdentity {
            name: name.to_owned(),
            kubeconfig: path("kubelet.conf"),
            bootstrap_kubeconfig: Some(path("bootstrap.conf")),
            cert_dir: path("pki"),
            rotates,
        };
        Self { dir, identity }
    }

    fn pki(&self, file: &str) -> PathBuf {
        self.dir.path().join("pki").join(file)
    }

    /// The certificate file of now.
    fn current(&self) -> Option<PathBuf> {
        fs::read_link(self.pki("kubelet-client-current.pem")).ok()
    }

    /// The requests that this node has made.
    async fn requests(&self) -> Vec<CertificateSigningRequest> {
        let api: Api<CertificateSigningRequest> = Api::all(admin(cluster()).await);
        let all = api.list(&ListParams::default()).await.unwrap().items;
        let subject = format!("system:node:{}", self.identity.name);
        all.into_iter().filter(|one| subject_of(one) == subject).collect()
    }

    async fn only_request(&self) -> String {
        let all =
            eventually("a request", async || Some(self.requests().await).filter(|all| !all.is_empty())).await;
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].metadata.name.clone().unwrap()
    }
}

fn subject_of(request: &CertificateSigningRequest) -> String {
    let block = Pem::iter_from_buffer(&request.spec.request.0).next().unwrap().unwrap();
    let (_, parsed) = X509CertificationRequest::from_der(&block.contents).unwrap();
    let subject = &parsed.certification_request_info.subject;
    subject.iter_common_name().next().unwrap().as_str().unwrap().to_owned()
}

fn bootstrap_kubeconfig(authority: &Path, token: &str) -> String {
    let authority = authority.display();
    format!(
        "apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: \"https://10.240.0.10:6443\", certificate-authority: {authority}}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"
    )
}

fn certificate(verb: &str, name: &str) {
    let done = cluster().command("kubectl").args(["certificate", verb, name]).status().unwrap();
    assert!(done.success(), "kubectl certificate {verb} {name}");
}

async fn user(clients: &Clients) -> Result<String, ApiError> {
    let api: Api<SelfSubjectReview> = Api::all(clients.main.kube());
    let review = SelfSubjectReview::default();
    let answer = clients.main.call("review", api.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.unwrap().user_info.unwrap().username.unwrap())
}

fn refused(connected: Result<Clients, IdentityError>) -> IdentityError {
    connected.map(|_| ()).unwrap_err()
}

#[test]
fn a_node_gets_its_certificate_and_renews_it_while_it_works() {
    run(cluster(), async || {
        let machine = Machine::new("renewed", APPROVED, true);
        let clients = machine.identity.connect().await.unwrap();
        let state = watch::Sender::new(ready());
        let node = spawn(&clients, settings("renewed"), OFTEN, state.subscribe());
        let _lease = lease::spawn(&clients, "renewed", LeaseTiming { duration_seconds: 4 }, node.node());
        let is_registered =
            |node: &Option<std::sync::Arc<_>>| node.as_ref().is_some_and(|node| is_ready(node));
        until(&mut node.node(), "registered", is_registered).await;
        assert_eq!(user(&clients).await.unwrap(), "system:node:renewed");
        let first = machine.current().unwrap();
        let end = clients.main.certificate_expires().unwrap();
        let kubeconfig = fs::read_to_string(&machine.identity.kubeconfig).unwrap();
        assert!(
            kubeconfig.contains("name: default-auth") && kubeconfig.contains("kubelet-client-current.pem")
        );
        assert!(!kubeconfig.contains(APPROVED), "{kubeconfig}");

        eventually("a renewal", async || machine.current().filter(|now| *now != first)).await;
        eventually("the old certificate ends", async || (Timestamp::now() > end).then_some(())).await;
        let after = Timestamp::now();
        let leases: Api<Lease> = Api::namespaced(admin(cluster()).await, NAMESPACE);
        let renewal =
            async || leases.get("renewed").await.ok()?.spec?.renew_time.filter(|time| time.0 > after);
        eventually("a heartbeat with the new certificate", renewal).await;
        assert!(clients.main.certificate_expires().unwrap() > end);
        assert_eq!(user(&clients).await.unwrap(), "system:node:renewed");
        // The status, and the watch that shows it.
        let mut changed = ready();
        changed.facts.images.push(crate::support::image("example.test/late:1", 30));
        state.send_replace(changed);
        let has_image = |node: &Option<std::sync::Arc<k8s_openapi::api::core::v1::Node>>| {
            let images = node.as_ref().and_then(|node| node.status.as_ref()?.images.clone());
            images.is_some_and(|images| images.len() == 3)
        };
        until(&mut node.node(), "a status with the new certificate", has_image).await;
        assert!(first.exists(), "old certificates stay");

        // An agent that starts now has the certificate that is there from the first request on.
        let again = machine.identity.connect().await.unwrap();
        assert_eq!(user(&again).await.unwrap(), "system:node:renewed");
    });
}

#[test]
fn a_node_without_rotation_waits_for_its_certificate_and_goes_on_with_its_request() {
    run(cluster(), async || {
        let machine = Machine::new("patient", WAITING, false);
        // Ended while it waits: the key is kept, and so the request is the same.
        tokio::select! {
            connected = machine.identity.connect() => panic!("{connected:?}"),
            name = machine.only_request() => assert!(name.starts_with("node-csr-"), "{name}"),
        }
        assert!(machine.pki("kubelet-client.key.tmp").exists());
        assert!(!machine.identity.kubeconfig.exists());
        let approve = async {
            let name = machine.only_request().await;
            certificate("approve", &name);
            std::future::pending::<()>().await;
        };
        let clients = tokio::select! {
            connected = machine.identity.connect() => connected.unwrap(),
            () = approve => unreachable!(),
        };
        assert_eq!(user(&clients).await.unwrap(), "system:node:patient");
        assert!(!machine.pki("kubelet-client.key.tmp").exists());
        assert_eq!(machine.requests().await.len(), 1);
    });
}

#[test]
fn a_request_that_waits_is_named_until_it_is_approved() {
    run(cluster(), async || {
        let machine = Machine::new("unapproved", WAITING, true);
        let clients = machine.identity.connect().await.unwrap();
        let name = machine.only_request().await;
        let named = async || {
            let error = user(&clients).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoClientCertificate, "{error}");
            error.to_string().contains(&name).then_some(())
        };
        eventually("an error with the request's name", named).await;
        certificate("approve", &name);
        let answered = async || user(&clients).await.ok();
        assert_eq!(eventually("an answer", answered).await, "system:node:unapproved");
    });
}

#[test]
fn a_denied_request_is_an_error_with_its_reason() {
    run(cluster(), async || {
        let machine = Machine::new("denied", WAITING, false);
        let deny = async {
            certificate("deny", &machine.only_request().await);
            std::future::pending::<()>().await;
        };
        let error = tokio::select! {
            connected = machine.identity.connect() => refused(connected),
            () = deny => unreachable!(),
        };
        assert!(matches!(&error, IdentityError::Refused { outcome: "was denied", .. }), "{error}");
        assert!(error.hint().contains("kubectl delete csr node-csr-"), "{}", error.hint());
        // The same request, not another one.
        let again = refused(machine.identity.connect().await);
        assert_eq!(again.to_string(), error.to_string());
        assert_eq!(machine.requests().await.len(), 1);
    });
}

#[test]
fn a_bootstrap_kubeconfig_that_does_not_work_is_explained() {
    run(cluster(), async || {
        let kind = |error: &IdentityError| match error {
            IdentityError::Api(error) => error.kind(),
            error => panic!("{error}"),
        };
        let wrong = refused(Machine::new("wrong", "dddddd.0123456789abcdef", false).identity.connect().await);
        assert_eq!(kind(&wrong), ErrorKind::Unauthorized);
        assert!(wrong.hint().contains("kubeadm token create"), "{}", wrong.hint());
        let powerless = refused(Machine::new("powerless", POWERLESS, false).identity.connect().await);
        assert_eq!(kind(&powerless), ErrorKind::Forbidden);
        assert!(powerless.hint().contains("system:node-bootstrapper"), "{}", powerless.hint());
        let machine = Machine::new("mistrusting", APPROVED, false);
        let other = cluster().kubeconfig().with_file_name("kubelet.crt");
        let file = machine.identity.bootstrap_kubeconfig.clone().unwrap();
        fs::write(&file, bootstrap_kubeconfig(&other, APPROVED)).unwrap();
        let untrusted = refused(machine.identity.connect().await);
        assert_eq!(kind(&untrusted), ErrorKind::ServerCertificate, "{untrusted}");
        assert!(untrusted.hint().contains(file.to_str().unwrap()), "{}", untrusted.hint());
        fs::remove_file(&file).unwrap();
        assert!(matches!(refused(machine.identity.connect().await), IdentityError::Kubeconfig(_)));
    });
}

#[test]
fn a_certificate_that_is_not_renewed_ends_the_agent_when_it_has_expired() {
    run(cluster(), async || {
        let machine = Machine::new("expiring", APPROVED, true);
        let clients = machine.identity.connect().await.unwrap();
        eventually("a certificate", async || user(&clients).await.ok()).await;
        let end = clients.main.certificate_expires().unwrap();
        let lost = tokio::time::timeout(Duration::from_secs(240), clients.lost()).await.unwrap();
        assert!(matches!(&*lost, IdentityError::Expired { end: at, .. } if *at == end), "{lost}");
        assert!(lost.hint().contains("--bootstrap-kubeconfig"), "{}", lost.hint());
        // What the supervisor does: another start, which requests a first certificate.
        drop(clients);
        let clients = machine.identity.connect().await.unwrap();
        eventually("another certificate", async || user(&clients).await.ok()).await;
    });
}

#[test]
fn a_certificate_that_another_program_puts_in_place_is_used() {
    run(cluster(), async || {
        let [one, other] = ["first-user", "second-user"].map(|name| node_kubeconfig(cluster(), name));
        let dir = tempfile::tempdir().unwrap();
        let files =
            |of: &Path| [of.with_extension("crt"), of.with_extension("key")].map(|f| fs::read(f).unwrap());
        let paths = ["own.crt", "own.key"].map(|name| dir.path().join(name));
        let put =
            |of: &Path| paths.iter().zip(files(of)).for_each(|(path, text)| fs::write(path, text).unwrap());
        put(&one);
        let text = fs::read_to_string(&one).unwrap();
        let text = text.replace(one.with_extension("crt").to_str().unwrap(), paths[0].to_str().unwrap());
        let text = text.replace(one.with_extension("key").to_str().unwrap(), paths[1].to_str().unwrap());
        let kubeconfig = dir.path().join("kubeconfig");
        fs::write(&kubeconfig, text).unwrap();
        let identity = NodeIdentity {
            name: "first-user".to_owned(),
            kubeconfig,
            bootstrap_kubeconfig: None,
            cert_dir: dir.path().join("pki"),
            rotates: false,
        };
        let clients = identity.connect().await.unwrap();
        assert_eq!(user(&clients).await.unwrap(), "system:node:first-user");
        // Half of it: the last usable credentials stay.
        fs::write(&paths[0], "half").unwrap();
        tokio::time::sleep(Duration::from_secs(12)).await;
        assert_eq!(user(&clients).await.unwrap(), "system:node:first-user");
        put(&other);
        let changed = async || user(&clients).await.ok().filter(|name| name == "system:node:second-user");
        eventually("the other certificate", changed).await;
    });
}
