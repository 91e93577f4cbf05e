//! The page of `wardlet agent`: on its node without credentials, and through the API server with a right.

use serde_json::{Value, json};
use testkit::{wait_for, wait_until};

use crate::agent::{Cluster, NODE, pod};

impl Cluster {
    /// What a client on the node gets.
    fn page(&self, path: &str) -> Option<String> {
        let url = format!("http://127.0.0.1:10280/wardlet/{path}");
        let output = self.testbed.command("curl").args(["-sf", &url]).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    /// The data of the page, once it satisfies this.
    fn data(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(&format!("the page {what}"), || {
            let data: Value = serde_json::from_str(&self.page("data.json")?).ok()?;
            Some(data).filter(&holds)
        })
    }
}

#[test]
fn the_page_shows_a_pod_with_its_block_its_plan_its_start_and_the_proof() {
    let cluster = Cluster::start();
    cluster.apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"},
        "data": {"key": "value"},
    }));
    let _agent = cluster.agent(&cluster.joined());
    cluster.apply(&pod("web"));
    let mut refused = pod("refused");
    refused["spec"]["hostNetwork"] = json!(true);
    refused["spec"].as_object_mut().unwrap().remove("hostUsers");
    refused["spec"]["volumes"] = json!([{"name": "settings", "nfs": {"server": "s", "path": "/"}}]);
    cluster.apply(&refused);
    cluster.running("web");
    let data = cluster.data("has the pod and its start", |data| data["pods"][0]["start"]["runs"].is_u64());
    let shown = &data["pods"][0];
    let lease = &cluster.leases()[0];
    assert_eq!((&shown["name"], &shown["userNamespace"]), (&json!("web"), &json!("own")));
    assert_eq!(shown["uids"]["hostId"], lease["uidMappings"][0]["hostId"]);
    assert_eq!(data["ids"]["uids"]["uses"][0]["pod"], "default/web");
    assert!(!shown["reasons"].as_array().unwrap().is_empty(), "{shown:#}");
    assert!(
        shown["mounts"].as_array().unwrap().iter().any(|mount| mount["path"] == "/settings"),
        "{shown:#}"
    );
    let steps: Vec<&str> =
        shown["start"]["steps"].as_array().unwrap().iter().filter_map(|step| step["name"].as_str()).collect();
    for step in ["record", "host IDs", "volumes", "sandbox", "image", "container"] {
        assert!(steps.contains(&step), "{step}: {steps:?}");
    }
    let waiting =
        cluster.data("has the pod that cannot be started", |data| data["waiting"][0]["name"] == "refused");
    assert!(waiting["waiting"][0]["message"].as_str().unwrap().contains("nfs"), "{waiting:#}");
    let proven = cluster.data("has a proof", |data| data["proof"]["done"].is_object());
    let uid = &shown["uid"];
    let of_pod = proven["proof"]["done"]["pods"].as_array().unwrap().iter().find(|pod| pod["uid"] == *uid);
    assert_eq!(of_pod.unwrap()["verdict"], "isolated", "{proven:#}");
    let html = cluster.page("").unwrap();
    assert!(html.starts_with("<!doctype html>") && html.contains("default/web"), "{html}");

    // Through the API server, whose own rights suffice, and with a token that has none.
    let raw = format!("/api/v1/nodes/{NODE}/proxy/wardlet/data.json");
    let output = cluster.testbed.command("kubectl").args(["get", "--raw", &raw]).output().unwrap();
    let through: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    assert_eq!(through["node"], NODE);
    let mut without = cluster.testbed.command("curl");
    without.args(["-sk", "-o", "/dev/null", "-w", "%{http_code}", "https://127.0.0.1:10250/wardlet/"]);
    let output = without.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "401");

    cluster.delete("web");
    wait_until("the page has no pod", || cluster.data("is there", |_| true)["pods"] == json!([]));
}
