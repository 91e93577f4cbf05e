//! Certificates of pods, requested with the credentials of their node. The test is the signer.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::ports::{
    CertificatePlace, CertificateRequest, Clock, Credentials, Event, EventSink, ObjectStore, PodRef,
    SystemClock,
};
use apiserver::objects::{ApiObjects, Requester};
use kube::Client;
use lifecycle::Moment;
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::{Value, json};
use testbed::signer::Signer;
use tokio::sync::watch;
use tokio::task::block_in_place;
use x509_parser::pem::Pem;

use crate::cluster::{Cluster, NODE, eventually, pod, reference};

const SIGNER: &str = "test.example/pods";
const MINUTE: Duration = Duration::from_secs(60);

/// The clock of this node, which a test can put forward.
#[derive(Default)]
struct Ahead(AtomicU64);

impl Ahead {
    fn set(&self, span: Duration) {
        self.0.store(span.as_secs(), Ordering::SeqCst);
    }
}

impl Clock for Ahead {
    fn now(&self) -> Moment {
        SystemClock.now().after(Duration::from_secs(self.0.load(Ordering::SeqCst)))
    }
}

#[derive(Default)]
struct Events(Mutex<Vec<Event>>);

impl EventSink for Events {
    fn record(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl Events {
    fn message(&self, reason: &str) -> Option<String> {
        let all = self.0.lock().unwrap();
        all.iter().find(|event| event.reason == reason).map(|event| event.message.clone())
    }
}

/// A node with a pod, and a signer.
struct Setup {
    cluster: Arc<Cluster>,
    objects: ApiObjects,
    signer: Signer,
    events: Arc<Events>,
    clock: Arc<Ahead>,
    pod: PodRef,
}

impl Setup {
    fn new(cluster: Arc<Cluster>, client: Client, name: &str) -> Self {
        let namespace = cluster.namespace(name);
        let node = cluster.node();
        let (events, clock) = (Arc::<Events>::default(), Arc::<Ahead>::default());
        let (_, seen) = watch::channel(Some(Arc::new(serde_json::from_value(node).unwrap())));
        let requester = Requester { client, node: NODE.to_owned(), seen, events: Arc::clone(&events) as _ };
        let objects = ApiObjects::with_certificates(requester, Arc::clone(&clock) as _);
        // A node may request certificates of those signers that its pods name.
        let mut web = pod(&namespace, "web");
        let source = json!({"signerName": SIGNER, "keyType": "ED25519", "credentialBundlePath": "all"});
        web["spec"]["volumes"] =
            json!([{"name": "v", "projected": {"sources": [{"podCertificate": source}]}}]);
        let pod = reference(&cluster.create(&web));
        objects.register(&pod.uid, &BTreeSet::new());
        Self { cluster, objects, signer: Signer::new("test").unwrap(), events, clock, pod }
    }

    fn get(&self, key_type: &str, source: usize) -> Result<Credentials, String> {
        let request = CertificateRequest {
            pod: self.pod.clone(),
            place: CertificatePlace { volume: "v".into(), source },
            service_account: "default".into(),
            signer: SIGNER.into(),
            key_type: key_type.into(),
            max_expiration_seconds: Some(7200),
            annotations: [("test.example/size".to_owned(), "small".to_owned())].into(),
        };
        block_in_place(|| self.objects.certificate(&request)).map_err(|error| error.to_string())
    }

    /// The requests that no signer has answered.
    fn open(&self) -> Vec<Value> {
        let namespace = &self.pod.namespace;
        let listed = self.cluster.kubectl(&["get", "podcertificaterequests", "-n", namespace, "-o", "json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let is_open = |one: &&Value| one["status"]["conditions"].as_array().is_none_or(Vec::is_empty);
        listed["items"].as_array().unwrap().iter().filter(is_open).cloned().collect()
    }

    async fn opened(&self, what: &str) -> Value {
        eventually(what, || self.open().pop()).await
    }

    fn answer(&self, request: &Value, status: &Value) {
        let name = request["metadata"]["name"].as_str().unwrap();
        let patch = json!({"status": status}).to_string();
        let fixed = ["patch", "podcertificaterequest", name, "-n", &self.pod.namespace];
        self.cluster.kubectl(&[&fixed[..], &["--subresource=status", "--type=merge", "-p", &patch]].concat());
    }

    fn issue(&self, request: &Value) {
        self.answer(request, &self.signer.issue(request).unwrap());
    }
}

/// Whether the first certificate is that of the key, and the second that of the signer.
fn verify(found: &Credentials, signer: &Signer) {
    let key = KeyPair::from_pem(found.expose_key()).unwrap();
    let blocks: Vec<Pem> = Pem::iter_from_buffer(found.chain().as_bytes()).map(Result::unwrap).collect();
    let leaf = blocks[0].parse_x509().unwrap();
    assert_eq!(leaf.public_key().subject_public_key.data, key.der_bytes());
    assert!(blocks.len() == 2 && found.chain().ends_with(signer.certificate()));
    assert!(found.expose_key().starts_with("-----BEGIN PRIVATE KEY-----\n"));
}

#[test]
fn keys_of_every_type_get_certificates() {
    let cluster = Cluster::shared();
    let inside = Arc::clone(&cluster);
    cluster.run(move |client| async move {
        let setup = Setup::new(inside, client, "certificates");
        let types = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
        for (source, key_type) in types.into_iter().enumerate() {
            let error = setup.get(key_type, source).unwrap_err();
            assert!(error.contains(SIGNER) && error.contains("not issued yet"), "{error}");
        }
        let all = eventually("a request of each type", || {
            Some(setup.open()).filter(|all| all.len() == types.len())
        });
        for request in all.await {
            let spec = &request["spec"];
            assert_eq!((&spec["podName"], &spec["nodeName"]), (&json!("web"), &json!(NODE)));
            assert_eq!(spec["podUID"], setup.pod.uid.as_str());
            assert_eq!((&spec["signerName"], &spec["maxExpirationSeconds"]), (&json!(SIGNER), &json!(7200)));
            assert_eq!(spec["unverifiedUserAnnotations"], json!({"test.example/size": "small"}));
            assert_eq!(request["metadata"]["ownerReferences"][0]["uid"], setup.pod.uid.as_str());
            setup.issue(&request);
        }
        for (source, key_type) in types.into_iter().enumerate() {
            let found = eventually(key_type, || setup.get(key_type, source).ok()).await;
            verify(&found, &setup.signer);
            assert_eq!(setup.get(key_type, source).unwrap(), found, "it is kept");
        }
        assert!(setup.get("RSA1024", 9).unwrap_err().contains("no keys of type \"RSA1024\""));
        assert!(setup.open().is_empty());
        assert!(setup.events.0.lock().unwrap().is_empty());
    });
}

#[test]
fn a_certificate_is_replaced_in_time_and_a_late_one_is_reported() {
    let cluster = Cluster::shared();
    let inside = Arc::clone(&cluster);
    cluster.run(move |client| async move {
        let setup = Setup::new(inside, client, "refresh");
        let get = || setup.get("ECDSAP256", 0);
        get().unwrap_err();
        // A request that is deleted is made again.
        let deleted = setup.opened("a request").await;
        let name = deleted["metadata"]["name"].as_str().unwrap();
        setup.cluster.kubectl(&["delete", "podcertificaterequest", name, "-n", &setup.pod.namespace]);
        let request = setup.opened("another request").await;
        assert_ne!(request["metadata"]["name"], deleted["metadata"]["name"]);
        setup.issue(&request);
        let first = eventually("a certificate", || get().ok()).await;

        // In use until half an hour after it was issued, and up to five minutes longer.
        setup.clock.set(36 * MINUTE);
        let request = setup.opened("a second request").await;
        assert_eq!(get().unwrap(), first, "the old one is still there");
        assert_ne!(request["spec"]["stubPKCS10Request"], deleted["spec"]["stubPKCS10Request"], "another key");
        setup.clock.set(46 * MINUTE);
        let overdue =
            eventually("the first event", || setup.events.message("CertificateOverdueForRefresh")).await;
        assert!(overdue.contains("volume \"v\", source 0") && overdue.contains(SIGNER), "{overdue}");
        assert_eq!(setup.events.message("CertificateExpired"), None);
        setup.clock.set(61 * MINUTE);
        eventually("the second event", || setup.events.message("CertificateExpired")).await;
        let mut changes = setup.objects.subscribe();
        changes.mark_unchanged();
        // The signer goes by the real time: later, the new one would be due at once.
        setup.clock.set(Duration::ZERO);
        setup.issue(&request);
        let second = eventually("another one", || get().ok().filter(|found| *found != first)).await;
        verify(&second, &setup.signer);
        assert!(changes.has_changed().unwrap(), "the files of the pod are to be written");

        // A pod that is gone has none.
        setup.objects.unregister(&setup.pod.uid);
        let error = get().unwrap_err();
        assert!(error.contains("the pod is gone"), "{error}");
        setup.objects.register(&setup.pod.uid, &BTreeSet::new());
        get().unwrap_err();
        let again = setup.opened("a request of a new pod").await;
        // A refusal is final.
        setup.answer(&again, &Signer::refuse("Denied"));
        let denied = eventually("the refusal", || setup.events.message("Denied")).await;
        assert!(denied.contains("ByTest: as the test decided"), "{denied}");
        let error = get().unwrap_err();
        assert!(error.contains("was denied") && setup.open().is_empty(), "{error}");
        setup.get("ED25519", 1).unwrap_err();
        setup.answer(&setup.opened("a last request").await, &Signer::refuse("Failed"));
        eventually("the failure", || setup.events.message("Failed")).await;
    });
}
