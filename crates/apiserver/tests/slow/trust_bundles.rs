//! Trust bundles of the cluster, read as a node may.

use std::sync::Arc;

use agent::ports::{ObjectStore, SystemClock, TrustBundles};
use apiserver::objects::ApiObjects;
use serde_json::{Value, json};
use testbed::signer::Signer;
use tokio::task::block_in_place;

use crate::cluster::{Cluster, eventually};

#[test]
fn trust_bundles_are_read_by_name_and_by_signer_and_followed() {
    let cluster = Cluster::shared();
    let inside = Arc::clone(&cluster);
    cluster.run(move |client| async move {
        let cluster = inside;
        let id = std::process::id();
        let roots = ["one", "two", "three"].map(|name| Signer::new(name).unwrap().certificate().to_owned());
        let bundle = |name: &str, signer: Option<&str>, labels: &Value, text: &str| {
            json!({"apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle",
                "metadata": {"name": name, "labels": labels}, "spec": {"signerName": signer, "trustBundle": text}})
        };
        let (plain, signer) = (format!("plain-{id}"), format!("test-{id}.example/roots"));
        let of_signer = |name: &str| format!("test-{id}.example:roots:{name}");
        let objects = ApiObjects::new(client, Arc::new(SystemClock));
        let get = |bundles: &TrustBundles| block_in_place(|| objects.trust_bundles(bundles));
        let named = TrustBundles::Named(plain.clone());
        assert_eq!(eventually("the first list", || get(&named).ok()).await, None);

        let mut changes = objects.subscribe();
        changes.mark_unchanged();
        cluster.create(&bundle(&plain, None, &json!({}), &roots[0]));
        assert_eq!(eventually("the bundle", || get(&named).unwrap()).await, roots[0]);
        assert!(changes.has_changed().unwrap());

        let live = json!({"ring": "live"});
        cluster.create(&bundle(&of_signer("a"), Some(&signer), &live, &roots[1]));
        cluster.create(&bundle(&of_signer("b"), Some(&signer), &json!({}), &roots[1..].concat()));
        let selected = |labels: Value| {
            let labels = serde_json::from_value(labels).unwrap();
            get(&TrustBundles::OfSigner { signer: signer.clone(), labels }).unwrap()
        };
        let all = eventually("both bundles", || {
            selected(json!({})).filter(|text| roots[1..].iter().all(|root| text.contains(root.as_str())))
        });
        let all = all.await;
        assert_eq!(all.matches("BEGIN CERTIFICATE").count(), 2, "each certificate once");
        assert_eq!(selected(json!({"matchLabels": live})).as_deref(), Some(roots[1].as_str()));
        assert_eq!(selected(json!({"matchLabels": {"ring": "next"}})), None);
        assert_eq!(selected(json!(null)), None);

        let patch = json!({"spec": {"trustBundle": roots[2]}}).to_string();
        cluster.kubectl(&["patch", "clustertrustbundle", &plain, "--type=merge", "-p", &patch]);
        eventually("the change", || get(&named).unwrap().filter(|text| *text == roots[2])).await;
        cluster.kubectl(&["delete", "clustertrustbundle", &plain, &of_signer("a"), &of_signer("b")]);
        eventually("the removal", || get(&named).unwrap().is_none().then_some(())).await;
    });
}
