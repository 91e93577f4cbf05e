//! Registration, adoption and the status of a Node.

use std::time::Duration;

use apiserver::client::ErrorKind;
use apiserver::node::{NodeTiming, differs, updated_node};
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::support::{
    Agent, BY_CHANGE, OFTEN, admin, cluster, condition, eventually, image, is_ready, merge, ready, run,
    settings, state, until,
};

#[test]
fn a_node_is_registered_and_its_readiness_is_sent_at_once() {
    run(cluster(), async || {
        let nodes: Api<Node> = Api::all(admin(cluster()).await);
        let mut settings = settings("new");
        settings.labels.insert("team".to_owned(), "blue".to_owned());
        settings.provider_id = Some("test://new".to_owned());
        settings.taints =
            vec![Taint { key: "gpu".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }];
        let agent = Agent::start(cluster(), settings.clone(), BY_CHANGE, state()).await;
        let node = agent.node_with("registered", |_| true).await;
        assert_eq!(condition(&node, "Ready"), Some("False"));
        agent.state.send_replace(ready());
        agent.node_with("ready", is_ready).await;

        let node = nodes.get("new").await.unwrap();
        assert!(is_ready(&node));
        let labels = node.metadata.labels.as_ref().unwrap();
        assert_eq!((labels["team"].as_str(), labels["kubernetes.io/hostname"].as_str()), ("blue", "new"));
        let spec = json!(node.spec);
        assert_eq!(spec["providerID"], "test://new");
        assert!(spec["taints"].as_array().unwrap().iter().any(|taint| taint["key"] == "gpu"), "{spec}");
        let status = json!(node.status);
        assert_eq!(
            status["addresses"],
            json!([
                {"type": "InternalIP", "address": "10.240.0.10"},
                {"type": "InternalIP", "address": "fd00::10"},
                {"type": "Hostname", "address": "new"},
            ])
        );
        assert_eq!(status["nodeInfo"]["containerRuntimeVersion"], "wardlet://0.1.0");
        assert_eq!(status["daemonEndpoints"]["kubeletEndpoint"]["Port"], 10250);
        assert_eq!(status["images"][0]["names"], json!(["example.test/b:1"]));
        assert_eq!(status["runtimeHandlers"][0]["features"]["userNamespaces"], true);
        // The server keeps every field in the form that it was sent in.
        let again = updated_node(&node, &settings, &ready(), Timestamp::now());
        assert!(!differs(&node, &again), "{}\n{}", json!(node), json!(again));
    });
}

#[test]
fn changed_addresses_of_one_type_all_arrive() {
    run(cluster(), async || {
        let agent = Agent::start(cluster(), settings("moved"), OFTEN, ready()).await;
        agent.node_with("registered", is_ready).await;
        let mut moved = ready();
        moved.facts.addresses = ["10.240.0.11", "fd00::11"].map(|ip| ip.parse().unwrap()).to_vec();
        agent.state.send_replace(moved);
        let addresses = |node: &Node| json!(node.status.as_ref().and_then(|status| status.addresses.clone()));
        let wanted = json!([
            {"type": "InternalIP", "address": "10.240.0.11"},
            {"type": "InternalIP", "address": "fd00::11"},
            {"type": "Hostname", "address": "moved"},
        ]);
        agent.node_with("new addresses", |node| addresses(node) == wanted).await;
    });
}

#[test]
fn a_node_that_exists_is_adopted_with_its_labels_taints_and_resources() {
    run(cluster(), async || {
        let nodes: Api<Node> = Api::all(admin(cluster()).await);
        let existing: Node = serde_json::from_value(json!({
            "metadata": {
                "name": "old",
                "labels": {"rack": "7", "team": "red", "kubernetes.io/arch": "other"},
                "annotations": {"foreign": "kept"},
            },
            "spec": {"taints": [{"key": "dedicated", "value": "db", "effect": "NoExecute"}]},
        }))
        .unwrap();
        nodes.create(&PostParams::default(), &existing).await.unwrap();
        let gpu = json!({"status": {"capacity": {"example.com/gpu": "2"}, "conditions": [
            {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated"},
        ]}});
        nodes.patch_status("old", &PatchParams::default(), &Patch::Strategic(gpu)).await.unwrap();

        let mut settings = settings("old");
        settings.labels.insert("team".to_owned(), "blue".to_owned());
        settings.taints =
            vec![Taint { key: "gpu".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }];
        let agent = Agent::start(cluster(), settings, BY_CHANGE, ready()).await;
        agent.node_with("adopted", is_ready).await;
        let node = nodes.get("old").await.unwrap();
        let labels = node.metadata.labels.as_ref().unwrap();
        assert_eq!((labels["rack"].as_str(), labels["team"].as_str()), ("7", "red"));
        assert_eq!(labels["kubernetes.io/arch"], ready().facts.machine.architecture);
        assert_eq!(labels["kubernetes.io/hostname"], "old");
        assert_eq!(node.metadata.annotations.as_ref().unwrap()["foreign"], "kept");
        let taints = json!(node.spec.as_ref().unwrap().taints);
        let has = |key: &str| taints.as_array().unwrap().iter().any(|taint| taint["key"] == key);
        assert!(has("dedicated") && !has("gpu"), "{taints}");
        let status = json!(node.status);
        assert_eq!(status["capacity"]["example.com/gpu"], "2");
        assert_eq!(status["allocatable"]["example.com/gpu"], "2");
        assert_eq!(condition(&node, "NetworkUnavailable"), Some("False"));

        // What others write later is seen.
        merge(&nodes, "old", json!({"spec": {"podCIDR": "10.7.0.0/24", "podCIDRs": ["10.7.0.0/24"]}})).await;
        let networks = |node: &Node| node.spec.as_ref().and_then(|spec| spec.pod_cidrs.clone());
        agent.node_with("pod networks", |node| networks(node) == Some(vec!["10.7.0.0/24".to_owned()])).await;
    });
}

#[test]
fn nothing_is_sent_without_a_change() {
    run(cluster(), async || {
        let nodes: Api<Node> = Api::all(admin(cluster()).await);
        let agent = Agent::start(cluster(), settings("quiet"), OFTEN, ready()).await;
        agent.node_with("registered", is_ready).await;
        let version = async || nodes.get("quiet").await.unwrap().metadata.resource_version.unwrap();
        let before = version().await;
        // Some dozens of rounds.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(version().await, before);

        let mut more = ready();
        more.facts.images.push(image("example.test/c:1", 30));
        agent.state.send_replace(more);
        let images =
            |node: &Node| node.status.as_ref().and_then(|status| status.images.as_ref().map(Vec::len));
        agent.node_with("a third image", |node| images(node) == Some(3)).await;
        assert_ne!(version().await, before);
    });
}

#[test]
fn the_heartbeat_is_sent_when_it_is_due() {
    run(cluster(), async || {
        let timing = NodeTiming { update: Duration::from_millis(50), report: Duration::from_millis(400) };
        let agent = Agent::start(cluster(), settings("due"), timing, ready()).await;
        let heartbeat = |node: &Node| {
            let status = node.status.clone().unwrap();
            let condition = status.conditions.unwrap().into_iter().find(|c| c.type_ == "Ready").unwrap();
            (condition.last_heartbeat_time, condition.last_transition_time)
        };
        let first = heartbeat(&*agent.node_with("registered", is_ready).await);
        let moved = agent.node_with("a heartbeat", |node| heartbeat(node).0 > first.0).await;
        assert_eq!(heartbeat(&moved).1, first.1);
    });
}

#[test]
fn a_node_that_may_not_be_registered_is_adopted_when_it_appears() {
    run(cluster(), async || {
        let nodes: Api<Node> = Api::all(admin(cluster()).await);
        let mut settings = settings("made");
        settings.register = false;
        let agent = Agent::start(cluster(), settings, OFTEN, ready()).await;
        let mut problem = agent.handle.problem();
        let missing = until(&mut problem, "missing", Option::is_some).await.unwrap();
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "made"}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        agent.node_with("ready", is_ready).await;
        until(&mut problem, "solved", Option::is_none).await;
    });
}

#[test]
fn a_node_that_is_deleted_is_not_created_again() {
    run(cluster(), async || {
        let nodes: Api<Node> = Api::all(admin(cluster()).await);
        let agent = Agent::start(cluster(), settings("deleted"), OFTEN, ready()).await;
        agent.node_with("registered", is_ready).await;
        nodes.delete("deleted", &DeleteParams::default()).await.unwrap();
        let mut problem = agent.handle.problem();
        let gone = until(&mut problem, "deleted", Option::is_some).await.unwrap();
        assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
        until(&mut agent.handle.node(), "no node", Option::is_none).await;
        assert!(nodes.get_opt("deleted").await.unwrap().is_none());
        agent.handle.stop().await;
        // After a restart it is registered again.
        let agent = Agent::start(cluster(), settings("deleted"), OFTEN, ready()).await;
        agent.node_with("registered again", is_ready).await;
        eventually("in the API", async || nodes.get_opt("deleted").await.unwrap()).await;
    });
}
