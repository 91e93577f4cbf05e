//! The pods of a node, and outages of the API server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::ports::PodSource;
use apiserver::pods::{ApiPod, PodSet, PodWatch};
use serde_json::json;

use crate::cluster::{Cluster, NODE, eventually, pod};

fn named<'a>(set: &'a PodSet, namespace: &str, name: &str) -> Option<&'a Arc<ApiPod>> {
    set.pods.iter().find(|pod| (pod.pod.namespace.as_str(), pod.pod.name.as_str()) == (namespace, name))
}

#[test]
fn pods_appear_change_and_go() {
    let cluster = Cluster::shared();
    let inside = Arc::clone(&cluster);
    cluster.run(move |client| async move {
        let cluster = inside;
        let namespace = cluster.namespace("pods");
        let mut source = PodWatch::start(client, NODE);
        let view = source.view();
        let first = source.next().await.unwrap();
        assert!(source.is_ready() && first.pods.iter().all(|pod| pod.pod.namespace != namespace));
        let find = |name: &str| view.current().and_then(|set| named(&set, &namespace, name).cloned());

        let mut elsewhere = pod(&namespace, "elsewhere");
        elsewhere["spec"]["nodeName"] = json!("node9");
        cluster.create(&elsewhere);
        let mut mirror = pod(&namespace, "mirror");
        mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "abc"});
        cluster.create(&mirror);
        let created = cluster.create(&pod(&namespace, "web"));
        let seen = eventually("the pod", || find("web")).await;
        assert_eq!(seen.pod.uid.as_str(), created["metadata"]["uid"].as_str().unwrap());
        assert_eq!((seen.phase.as_str(), seen.generation, seen.deletion), ("Pending", Some(1), None));
        assert!(seen.created.is_some() && seen.object().unwrap().warnings.is_empty());
        assert!(seen.object().unwrap().resource.metadata().managed_fields.is_none());
        assert!(find("elsewhere").is_none());
        let mirror = eventually("the mirror pod", || find("mirror")).await;
        assert_eq!((mirror.mirror.as_deref(), seen.mirror.as_deref()), (Some("abc"), None));

        cluster.kubectl(&["label", "pod", "-n", &namespace, "web", "colour=green"]);
        let is_green = |pod: &Arc<ApiPod>| {
            let labels = pod.object().unwrap().resource.metadata().labels.clone();
            labels.is_some_and(|labels| labels.get("colour").is_some_and(|colour| colour == "green"))
        };
        eventually("the label", || find("web").filter(is_green)).await;

        cluster.kubectl(&["delete", "pod", "-n", &namespace, "web", "--wait=false", "--grace-period=21"]);
        let ending = eventually("the deletion", || find("web").and_then(|pod| pod.deletion)).await;
        assert_eq!(ending.grace, Some(Duration::from_secs(21)));

        cluster.kubectl(&["delete", "pod", "-n", &namespace, "web", "--force", "--grace-period=0"]);
        eventually("the removal", || find("web").is_none().then_some(())).await;
        // The source delivers the newest set, whatever came in between.
        let set = source.next().await.unwrap();
        assert!(named(&set, &namespace, "web").is_none() && named(&set, &namespace, "mirror").is_some());
    });
}

#[test]
fn an_outage_of_the_api_server_is_no_empty_set() {
    let cluster = Cluster::own();
    let inside = Arc::clone(&cluster);
    cluster.run(move |client| async move {
        let cluster = inside;
        cluster.create(&pod("default", "first"));
        let mut source = PodWatch::start(client.clone(), NODE);
        let view = source.view();
        eventually("the pod", || view.current().filter(|set| named(set, "default", "first").is_some())).await;
        let sets = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&sets);
        let collecting = tokio::spawn(async move {
            while let Some(set) = source.next().await {
                collected.lock().unwrap().push(set);
            }
        });

        cluster.kill_api_server();
        let late = PodWatch::start(client, NODE);
        // Long enough for several attempts.
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(!late.is_ready(), "a server that cannot be reached has no pods to tell of");
        assert!(named(&view.current().unwrap(), "default", "first").is_some());
        cluster.restart_api_server();
        cluster.create(&pod("default", "second"));
        let has_both =
            |set: &Arc<PodSet>| ["first", "second"].iter().all(|name| named(set, "default", name).is_some());
        eventually("both pods", || view.current().filter(has_both)).await;
        let late = late.view();
        eventually("both pods for the late watch", || late.current().filter(has_both)).await;
        collecting.abort();
        let sets = sets.lock().unwrap();
        assert!(!sets.is_empty() && sets.iter().all(|set| named(set, "default", "first").is_some()));
    });
}
