//! ConfigMaps and Secrets, watched by name as a node may.

use std::sync::Arc;

use agent::ports::{ObjectStore, SystemClock};
use apiserver::objects::{ApiObjects, references};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::cluster::{Cluster, eventually, pod, reference};

fn object(kind: &str, namespace: &str, name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "data": data})
}

#[test]
fn objects_of_pods_are_read_watched_and_forgotten() {
    let cluster = Cluster::shared();
    let inside = Arc::clone(&cluster);
    cluster.run(move |client| async move {
        let cluster = inside;
        let namespace = cluster.namespace("objects");
        cluster.create(&object("ConfigMap", &namespace, "colours", &json!({"sky": "blue"})));
        cluster.create(&object("Secret", &namespace, "login", &json!({"password": "aHVudGVyMg=="})));
        let mut fixed = object("Secret", &namespace, "fixed", &json!({"key": "YQ=="}));
        fixed["immutable"] = json!(true);
        cluster.create(&fixed);
        let mut web = pod(&namespace, "web");
        web["spec"]["containers"][0]["envFrom"] =
            json!([{"configMapRef": {"name": "colours"}}, {"secretRef": {"name": "fixed"}}]);
        web["spec"]["volumes"] = json!([{"name": "login", "secret": {"secretName": "login"}},
            {"name": "none", "configMap": {"name": "none", "optional": true}}]);
        let keys = references(&serde_json::from_value(web.clone()).unwrap());
        assert_eq!(keys.len(), 4);

        let objects = ApiObjects::new(client, Arc::new(SystemClock));
        let config_map = |name: &str| block_in_place(|| objects.config_map(&namespace, name));
        let secret = |name: &str| block_in_place(|| objects.secret(&namespace, name));
        let mut changes = objects.subscribe();
        // No pod on this node names the objects yet.
        let early = types::PodUid::new("early").unwrap();
        objects.register(&early, &keys);
        objects.await_answers(&keys).await;
        let refused = config_map("colours").unwrap_err().to_string();
        assert!(refused.contains("no relationship found") && refused.contains("colours"), "{refused}");

        let web = reference(&cluster.create(&web));
        objects.register(&web.uid, &keys);
        objects.unregister(&early);
        let colours = eventually("the map", || config_map("colours").ok().flatten()).await;
        assert_eq!(colours.data["sky"], "blue");
        let login = eventually("the secret", || secret("login").ok().flatten()).await;
        assert_eq!(login.data["password"], b"hunter2");
        eventually("the absence", || config_map("none").ok().filter(Option::is_none)).await;
        eventually("the immutable secret", || secret("fixed").ok().flatten()).await;
        let shown = format!("{objects:?}");
        assert!(
            shown.contains("login") && !shown.contains("hunter2") && !shown.contains("aHVudGVyMg"),
            "{shown}"
        );

        // An immutable object is not watched further: its deletion is not seen, the changes of others are.
        cluster.kubectl(&["delete", "secret", "-n", &namespace, "fixed"]);
        changes.mark_unchanged();
        let patch = json!({"data": {"sky": "grey"}}).to_string();
        cluster.kubectl(&["patch", "configmap", "-n", &namespace, "colours", "-p", &patch]);
        let patch = json!({"data": {"password": "c2VjcmV0"}}).to_string();
        cluster.kubectl(&["patch", "secret", "-n", &namespace, "login", "-p", &patch]);
        let is_grey = |map: &volumes::payload::ConfigMap| map.data["sky"] == "grey";
        eventually("the new map", || config_map("colours").unwrap().filter(is_grey)).await;
        let is_new = |secret: &volumes::payload::Secret| secret.data["password"] == b"secret";
        eventually("the new secret", || secret("login").unwrap().filter(is_new)).await;
        assert!(changes.has_changed().unwrap() && secret("fixed").unwrap().is_some());
        cluster.kubectl(&["delete", "configmap", "-n", &namespace, "colours"]);
        eventually("the removal", || config_map("colours").unwrap().is_none().then_some(())).await;

        objects.unregister(&web.uid);
        assert!(objects.registered().is_empty());
        assert!(secret("login").unwrap_err().to_string().contains("not registered"));
    });
}
