//! What pods of `wardlet agent` get from the API: trust bundles, certificates, and variables; what is missing, and what
//! changes while they run.

use std::process::Command;

use serde_json::{Value, json};
use testbed::signer::Signer;
use testkit::{wait_for, wait_until};

use crate::agent::{Cluster, container_id, pod};

const SIGNER: &str = "test.example/pods";

/// A pod with one volume at `/v`, whose script runs until it is stopped.
fn with_volume(name: &str, volume: &Value, script: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["volumes"] = json!([volume]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": volume["name"], "mountPath": "/v"}]);
    let script = format!("trap 'exit 0' TERM; while :; do {script}; sleep 0.2; done");
    pod["spec"]["containers"][0]["command"] = json!(["sh", "-c", script]);
    pod
}

fn projected(sources: &Value) -> Value {
    json!({"name": "v", "projected": {"sources": sources}})
}

fn patch(cluster: &Cluster, what: &[&str], content: &Value) {
    let content = content.to_string();
    let fixed = [&["patch", "--type=merge", "-p", &content][..], what].concat();
    assert!(cluster.testbed.command("kubectl").args(fixed).status().unwrap().success());
}

fn config_map(cluster: &Cluster, name: &str, value: &str) {
    cluster.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": value},
        "metadata": {"name": name, "namespace": "default"}}));
}

fn waiting(pod: &Value) -> Value {
    pod["status"]["containerStatuses"][0]["state"]["waiting"].clone()
}

impl Cluster {
    /// Waits until a pod waits as it is created, with an event of this reason whose message has all of these.
    fn waits_with_event(&self, name: &str, reason: &str, texts: &[&str]) {
        wait_until(&format!("{name} is reported: {texts:?}"), || {
            let events = self.get(&["events"]).unwrap_or_default()["items"].clone();
            let is_it = |event: &Value| {
                let message = event["message"].as_str().unwrap_or_default();
                event["involvedObject"]["name"] == name
                    && event["reason"] == reason
                    && texts.iter().all(|text| message.contains(text))
            };
            events.as_array().is_some_and(|all| all.iter().any(is_it))
        });
        self.pod(name, "is being created", |pod| waiting(pod)["reason"] == "ContainerCreating");
    }

    /// The request of a pod that no signer has answered.
    fn certificate_request(&self, pod: &str) -> Value {
        wait_for(&format!("a request of {pod}"), || {
            let listed = self.get(&["podcertificaterequests"])?["items"].clone();
            let is_it = |one: &&Value| {
                one["spec"]["podName"] == pod
                    && one["status"]["conditions"].as_array().is_none_or(Vec::is_empty)
            };
            listed.as_array()?.iter().find(is_it).cloned()
        })
    }

    fn answer(&self, request: &Value, status: &Value) {
        let name = request["metadata"]["name"].as_str().unwrap();
        patch(self, &["podcertificaterequest", name, "--subresource=status"], &json!({"status": status}));
    }
}

#[test]
fn trust_bundles_and_certificates_reach_pods_and_follow_changes() {
    let cluster = Cluster::start();
    let agent = cluster.agent(&cluster.joined());
    let (signer, other) = (Signer::new("first").unwrap(), Signer::new("second").unwrap());
    let bundle = |text: &str| {
        cluster.apply(&json!({"apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle",
            "metadata": {"name": "roots"}, "spec": {"trustBundle": text}}));
    };
    let trust = json!([{"clusterTrustBundle": {"name": "roots", "path": "roots.pem"}},
        {"clusterTrustBundle": {"signerName": SIGNER, "labelSelector": {}, "optional": true, "path": "none.pem"}}]);
    cluster.apply(&with_volume("trusts", &projected(&trust), "cat /v/roots.pem; wc -c < /v/none.pem"));
    let certificate = json!([{"podCertificate": {"signerName": SIGNER, "keyType": "ED25519",
        "credentialBundlePath": "all.pem", "keyPath": "key.pem", "certificateChainPath": "chain.pem"}}]);
    let script = "stat -L -c '%u %a' /v/key.pem; cat /v/all.pem | wc -l; cat /v/chain.pem";
    let mut proves = with_volume("proves", &projected(&certificate), script);
    proves["spec"]["securityContext"] = json!({"runAsUser": 1000});
    cluster.apply(&proves);
    cluster.apply(&with_volume("denied", &projected(&certificate), ":"));

    // Neither is there yet.
    cluster.waits_with_event("trusts", "FailedMount", &["clusterTrustBundle \"roots\": not found"]);
    cluster.waits_with_event("proves", "FailedMount", &[SIGNER, "not issued yet"]);
    bundle(signer.certificate());
    cluster.running("trusts");
    let expected = format!("{}0\n", signer.certificate());
    wait_until("the bundle is there", || cluster.logs(&["trusts"]).starts_with(&expected));
    bundle(other.certificate());
    let changed = format!("{}0\n", other.certificate());
    wait_until("the bundle follows", || cluster.logs(&["trusts", "--tail=50"]).contains(&changed));

    let request = cluster.certificate_request("proves");
    let issued = signer.issue(&request).unwrap();
    cluster.answer(&request, &issued);
    let started = cluster.running("proves");
    let chain = issued["certificateChain"].as_str().unwrap();
    let lines = chain.lines().count() + 3;
    let expected = format!("1000 600\n{lines}\n{chain}");
    wait_until("the certificate is there", || cluster.logs(&["proves"]).starts_with(&expected));

    // Final: no other request follows.
    cluster.answer(&cluster.certificate_request("denied"), &Signer::refuse("Denied"));
    cluster.waits_with_event("denied", "Denied", &["was denied: ByTest: as the test decided"]);
    cluster.delete("denied");

    // On no disk, and so made anew by the next agent, which adopts the pod.
    let mut search = Command::new("grep");
    search.args(["-rlas", "-e", "BEGIN PRIVATE KEY"]).arg(cluster.dir.path().join("state"));
    let found = search.output().unwrap().stdout;
    assert_eq!(String::from_utf8_lossy(&found), "", "volumes in memory are not seen from here");
    drop(agent);
    let _agent = cluster.agent(&cluster.joined());
    let request = cluster.certificate_request("proves");
    let again = other.issue(&request).unwrap();
    cluster.answer(&request, &again);
    let chain = again["certificateChain"].as_str().unwrap();
    wait_until("the new certificate is there", || cluster.logs(&["proves", "--tail=60"]).contains(chain));
    let adopted = cluster.running("proves");
    assert_eq!(container_id(&adopted), container_id(&started));
    ["trusts", "proves"].into_iter().for_each(|name| cluster.delete(name));
    wait_until("every block is returned", || cluster.leases().is_empty());
}

#[test]
fn variables_and_files_of_missing_objects_wait_for_them_and_say_which() {
    let cluster = Cluster::start();
    let _agent = cluster.agent(&cluster.joined());
    let env = |name: &str, env: &Value, script: &str| {
        let mut pod = with_volume(name, &json!({"name": "v", "emptyDir": {}}), script);
        pod["spec"]["containers"][0]["env"] = env.clone();
        pod
    };
    let of = |kind: &str, name: &str, key: &str| json!({"name": "A", "valueFrom": {kind: {"name": name, "key": key}}});
    let waits = |name: &str, message: &str| {
        cluster.pod(name, "waits for its variable", |pod| {
            waiting(pod)["reason"] == "CreateContainerConfigError" && waiting(pod)["message"] == message
        });
    };
    config_map(&cluster, "there", "1");
    cluster.apply(&env("late", &json!([of("configMapKeyRef", "later", "key")]), "echo A=$A"));
    cluster.apply(&env("keyless", &json!([of("configMapKeyRef", "there", "other")]), ":"));
    let mut all = env("all", &json!([]), ":");
    all["spec"]["containers"][0]["envFrom"] = json!([{"secretRef": {"name": "none"}}]);
    cluster.apply(&all);
    waits("late", "configmap \"later\" not found");
    waits("keyless", "couldn't find key other in ConfigMap default/there");
    waits("all", "secret \"none\" not found");
    config_map(&cluster, "later", "now");
    cluster.running("late");
    wait_until("the variable is there", || cluster.logs(&["late"]).starts_with("A=now\n"));

    // A file of an init container, and a missing one.
    let file = |path: &str, optional: bool| json!({"fileKeyRef": {"volumeName": "v", "path": path, "key": "B", "optional": optional}});
    let of_file =
        json!([{"name": "B", "valueFrom": file("env", false)}, {"name": "C", "valueFrom": file("no", true)}]);
    let mut files = env("files", &of_file, "echo \"$B/$C.\"");
    let mut writes = files["spec"]["containers"][0].clone();
    writes["name"] = json!("writes");
    writes["command"] = json!(["sh", "-c", "printf \"# made here\\nA='x'\\nB='two\\nlines'\\n\" > /v/env"]);
    writes.as_object_mut().unwrap().remove("env");
    files["spec"]["initContainers"] = json!([writes]);
    cluster.apply(&files);
    cluster.running("files");
    wait_until("the variables are there", || cluster.logs(&["files"]).starts_with("two\nlines/.\n"));

    // Volumes: one that is missing, a key that is missing, an optional one that appears, one that changes, one that cannot.
    let source = |name: &str| json!({"configMap": {"name": name}});
    let of_key = json!({"configMap": {"name": "there", "items": [{"key": "other", "path": "other"}]}});
    cluster.apply(&with_volume("objectless", &projected(&json!([source("absent")])), ":"));
    cluster.apply(&with_volume("itemless", &projected(&json!([of_key])), ":"));
    cluster.waits_with_event(
        "objectless",
        "FailedMount",
        &["MountVolume.SetUp failed for volume \"v\" : configmap \"absent\" not found"],
    );
    let message =
        "MountVolume.SetUp failed for volume \"v\" : there: references non-existent config key: other";
    cluster.waits_with_event("itemless", "FailedMount", &[message]);
    let mut follows = with_volume("follows", &projected(&json!([])), "cat /v/a /v/b /v/c 2>/dev/null; echo");
    let sources: Vec<Value> = [("there", "a", false), ("appears", "b", true), ("fixed", "c", false)]
        .into_iter()
        .map(|(name, path, optional)| {
            json!({"configMap": {"name": name, "optional": optional, "items": [{"key": "key", "path": path}]}})
        })
        .collect();
    follows["spec"]["volumes"][0]["projected"]["sources"] = json!(sources);
    cluster.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "-f"}, "immutable": true,
        "metadata": {"name": "fixed", "namespace": "default"}}));
    cluster.apply(&follows);
    cluster.running("follows");
    let shows = |text: &str| {
        wait_until(text, || cluster.logs(&["follows", "--tail=1"]).trim() == text);
    };
    shows("1-f");
    config_map(&cluster, "there", "2");
    shows("2-f");
    config_map(&cluster, "appears", "+");
    shows("2+-f");

    for name in ["late", "keyless", "all", "files", "objectless", "itemless", "follows"] {
        cluster.delete(name);
    }
    wait_until("every block is returned", || cluster.leases().is_empty());
}
