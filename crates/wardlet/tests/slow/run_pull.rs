//! Images from a registry that wants to know who asks.

use crate::run_support;

use run_support::{Node, Running, text};
use rustix::process::{Pid, Signal, kill_process};
use testbed::cluster::addresses::REGISTRY_BASIC;
use testbed::registry::{PASSWORD, USER};

/// The image has no program: that it is there is seen by what the runtime says about it.
fn manifest(password: &str) -> String {
    let config =
        format!(r#"{{"auths":{{"{REGISTRY_BASIC}":{{"username":"{USER}","password":"{password}"}}}}}}"#);
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: pull}}\ntype: kubernetes.io/dockerconfigjson\nstringData: {{.dockerconfigjson: '{config}'}}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {{name: pulls}}\nspec:\n  hostUsers: false\n  restartPolicy: Never\n  \
         imagePullSecrets: [{{name: pull}}, {{name: missing}}]\n  containers:\n  \
         - {{name: app, image: '{REGISTRY_BASIC}/registry-only:1', command: [/none]}}\n"
    )
}

#[test]
fn a_pod_pulls_with_the_secret_that_it_names() {
    let node = Node::with_registry();
    let file = node.manifest("pod.yaml", &manifest("wrong"));
    let mut running = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
    node.await_that("the registry refuses", || {
        let waiting = node.json(&["ps"])[0]["status"]["containers"][0]["state"]["waiting"].clone();
        waiting["reason"].as_str().unwrap_or_default().contains("ImagePull")
    });
    let child = running.0.take().unwrap();
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let refused = text(&child.wait_with_output().unwrap());
    assert!(
        refused.contains("cannot be pulled") && refused.contains("there is no secret \"missing\""),
        "{refused}"
    );

    node.manifest("pod.yaml", &manifest(PASSWORD));
    let pulled = text(&node.run(&[file.to_str().unwrap()]).output().unwrap());
    assert!(pulled.contains("/none") && !pulled.contains("cannot be pulled"), "{pulled}");
    assert_eq!(node.leftovers(), Vec::<String>::new());
}
