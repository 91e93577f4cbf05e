//! `explain` says what `run` does: volumes and nodes that `run` refuses.

use crate::cli_explain::{host_with, pod};
use crate::support::Host;

/// `explain` said that they run, and `run` refused them.
#[test]
fn a_volume_that_run_refuses_is_refused_and_its_mounts_are_planned() {
    let claim = pod(&[]).replace("emptyDir: {medium: Memory}", "persistentVolumeClaim: {claimName: data}");
    assert_ne!(claim, pod(&[]));
    let host = Host::new();
    host.write("pod.yaml", &claim);
    let ran = host.run("explain HOST/pod.yaml");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("\n  where that is run:\n  app /scratch: volume scratch, "), "{ran:?}");
    let explained = &host.json("explain HOST/pod.yaml")["pods"][0];
    assert_eq!(explained["verdict"], "refused");
    let refusal = &explained["refusals"][0];
    assert_eq!(refusal["field"], "spec.volumes[0].persistentVolumeClaim");
    assert_eq!(refusal["cause"], "a volume that is kept elsewhere is not run here");
    assert!(refusal["at"].as_str().unwrap().contains("/pod.yaml:10:"), "{refusal}");
    assert_eq!(explained["mounts"][0]["volume"], "scratch");
}

/// The name of the node is known only to itself.
#[test]
fn a_pod_for_another_node_runs_on_the_facts_of_another_node() {
    let host = host_with(&["nodeName: elsewhere", "nodeSelector: {disk: ssd}"]);
    assert_eq!(host.json("explain HOST/pod.yaml")["pods"][0]["verdict"], "runs");
}

/// A tree on a filesystem without idmapped mounts takes time for each file, which the plan says.
#[test]
fn what_chown_once_costs_is_said_before_the_pod_starts() {
    let host = Host::new();
    let data =
        pod(&["hostUsers: false"]).replace("emptyDir: {medium: Memory}", "hostPath: {path: /srv/data}");
    host.write("pod.yaml", &data);
    let mut facts = host.json("explain HOST/pod.yaml")["facts"].clone();
    facts["filesystems"]["paths"] = serde_json::json!({"/srv": "nfs"});
    facts["filesystems"]["idmap"] = serde_json::json!({"nfs": {"no": "EINVAL"}});
    host.write("facts.json", &facts.to_string());
    host.config("policy: {volumes: {cannotIdmap: chownOnce}}\n");
    let pod = host.json("explain HOST/pod.yaml --facts HOST/facts.json")["pods"][0].clone();
    assert_eq!((&pod["verdict"], &pod["warnings"][0]["field"]), (&"runs".into(), &"spec.volumes[0]".into()));
    let text = pod["warnings"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("each file is given to the pod's host IDs before the pod starts"), "{text}");
}
