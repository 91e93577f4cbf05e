//! Tokens of pods, requested with the credentials of their node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent::Error;
use agent::ports::{Clock, ObjectStore, PodRef, SystemClock, TokenRequest};
use apiserver::objects::ApiObjects;
use lifecycle::Moment;
use serde_json::{Value, json};
use tokio::task::block_in_place;
use types::PodUid;

use crate::cluster::{Cluster, NODE, eventually, pod, reference};

/// The lifetime that the API server's admission asks for.
const SECONDS: i64 = 3607;

/// The clock of this node, which a test can put forward.
#[derive(Default)]
struct Ahead(AtomicU64);

impl Clock for Ahead {
    fn now(&self) -> Moment {
        SystemClock.now().after(Duration::from_secs(self.0.load(Ordering::SeqCst)))
    }
}

fn request(pod: &PodRef, audience: Option<&str>) -> TokenRequest {
    let (service_account, audience) = ("default".to_owned(), audience.map(str::to_owned));
    TokenRequest { pod: pod.clone(), service_account, audience, expiration_seconds: SECONDS }
}

/// The API server's verdict on a token.
fn review(cluster: &Cluster, token: &str, audiences: &[&str]) -> Value {
    let spec = json!({"token": token, "audiences": audiences});
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
    cluster.create(&review)["status"].take()
}

/// A pod as a user writes it: the API server adds the volume with its token.
fn default_pod(cluster: &Cluster, namespace: &str, audience: &str) -> PodRef {
    let mut web = pod(namespace, "web");
    web["spec"].as_object_mut().unwrap().remove("automountServiceAccountToken");
    let token = json!({"path": "other", "audience": audience});
    web["spec"]["volumes"] =
        json!([{"name": "more", "projected": {"sources": [{"serviceAccountToken": token}]}}]);
    let created = cluster.create(&web);
    let sources = &created["spec"]["volumes"][1]["projected"]["sources"];
    assert_eq!(sources[0]["serviceAccountToken"]["expirationSeconds"], SECONDS, "{created}");
    reference(&created)
}

#[test]
fn a_token_is_valid_for_its_pod_its_audience_and_its_time() {
    let cluster = Cluster::shared();
    let inside = Arc::clone(&cluster);
    cluster.run(move |client| async move {
        let cluster = inside;
        let namespace = cluster.namespace("tokens");
        let clock = Arc::new(Ahead::default());
        let objects = ApiObjects::new(client, Arc::clone(&clock) as _);
        let token = |request: &TokenRequest| {
            let token = block_in_place(|| objects.token(request));
            token.map(|token| token.expose().to_owned())
        };
        let web = default_pod(&cluster, &namespace, "vault");
        let own = request(&web, None);
        let first = eventually("a token", || token(&own).ok()).await;
        assert_eq!(token(&own).unwrap(), first, "it is kept");

        let status = review(&cluster, &first, &[]);
        assert_eq!(status["authenticated"], true, "{status}");
        assert_eq!(status["user"]["username"], format!("system:serviceaccount:{namespace}:default"));
        let extra =
            |key: &str| status["user"]["extra"][format!("authentication.kubernetes.io/{key}")][0].clone();
        assert_eq!((extra("pod-name"), extra("node-name")), (json!("web"), json!(NODE)));
        assert_eq!(extra("pod-uid"), web.uid.as_str());

        // For another audience, which the pod's definition names.
        let vault = token(&request(&web, Some("vault"))).unwrap();
        assert_eq!(review(&cluster, &vault, &["vault"])["audiences"], json!(["vault"]));
        assert_ne!(review(&cluster, &vault, &[])["authenticated"], true);

        // A node gets no tokens for audiences that its pods do not name, nor for pods that are not its own.
        let refused = |request: &TokenRequest| match token(request) {
            Err(Error::Token { cause, .. }) => cause,
            other => panic!("{:?}", other.map(drop)),
        };
        assert!(refused(&request(&web, Some("bank"))).contains("bank"));
        let stranger = PodRef { uid: PodUid::new("stranger").unwrap(), ..web.clone() };
        assert!(!refused(&request(&stranger, None)).is_empty());

        // Refreshed in the background before it expires; subscribers learn of it.
        let mut changes = objects.subscribe();
        changes.mark_unchanged();
        clock.0.store(u64::try_from(SECONDS * 9 / 10).unwrap(), Ordering::SeqCst);
        assert_eq!(token(&own).unwrap(), first, "it has not expired");
        eventually("a refresh", || changes.has_changed().unwrap().then_some(())).await;
        let second = eventually("another token", || token(&own).ok().filter(|token| *token != first)).await;
        assert_eq!(review(&cluster, &second, &[])["authenticated"], true);

        // Invalid with the end of the pod.
        objects.unregister(&web.uid);
        cluster.kubectl(&["delete", "pod", "-n", &namespace, "web", "--force", "--grace-period=0"]);
        let is_invalid = || (review(&cluster, &second, &[])["authenticated"] != true).then_some(());
        eventually("the end of the token", is_invalid).await;
        assert!(!refused(&own).is_empty());
    });
}
