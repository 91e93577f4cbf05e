//! Which volumes conflict before and after an upgrade, and what settles it, asked of the real binary.

use crate::support;

use serde_json::{Value, json};
use support::Host;

/// A Deployment in `shop` that mounts the claim `data`, with this in its pods' securityContext and spec.
fn deployment(name: &str, context: &str, spec: &str) -> Value {
    let read = |text: &str| -> Value {
        if text.is_empty() { json!({}) } else { serde_json::from_str(text).unwrap() }
    };
    let mut pod = json!({
        "securityContext": read(context),
        "containers": [{"name": "app", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    });
    for (key, value) in read(spec).as_object().unwrap() {
        pod[key] = value.clone();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    })
}

const ONE: &str = r#"{"seLinuxOptions": {"level": "s0:c1,c2"}}"#;
const TWO: &str = r#"{"seLinuxOptions": {"level": "s0:c3,c4"}}"#;

/// The claim `data`, its volume with these access modes, and its driver.
fn storage(mode: &str, selinux_mount: bool) -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
            "spec": {"accessModes": [mode], "volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
            "spec": {"accessModes": [mode], "capacity": {"storage": "1Gi"}, "claimRef": {"namespace": "shop", "name": "data"},
                "csi": {"driver": "d.example.com", "volumeHandle": "h", "fsType": "ext4"}}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d.example.com"},
            "spec": {"seLinuxMount": selinux_mount}}),
    ]
}

pub(crate) fn list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

fn with_storage(mode: &str, workloads: &[Value]) -> Vec<Value> {
    workloads.iter().cloned().chain(storage(mode, true)).collect()
}

fn check(objects: &[Value], words: &str) -> Value {
    let host = Host::new();
    host.write("dump.json", &list(objects));
    host.json(&format!("check HOST/dump.json {words}"))
}

fn code(objects: &[Value], words: &str) -> Option<i32> {
    let host = Host::new();
    host.write("dump.json", &list(objects));
    host.run(&format!("check HOST/dump.json {words}")).code
}

pub(crate) fn two_labels(mode: &str) -> Vec<Value> {
    with_storage(mode, &[deployment("a", ONE, ""), deployment("b", TWO, "")])
}

#[test]
fn two_labels_on_a_shared_volume_conflict_as_the_contract_says() {
    let report = check(&two_labels("ReadWriteMany"), "");
    let conflict = &report["conflicts"][0];
    assert_eq!(conflict["property"], "SELinuxLabel");
    assert_eq!(conflict["volume"], "kubernetes.io/csi/d.example.com^h");
    let side = |name: &str, value: &str| json!({"kind": "Deployment", "namespace": "shop", "name": name, "value": value, "pod": null, "pods": 1});
    assert_eq!(conflict["a"], side("a", ":::s0:c1,c2"));
    assert_eq!(conflict["b"], side("b", ":::s0:c3,c4"));
    assert_eq!((&conflict["severity"], &conflict["when"]), (&json!("mayMeet"), &json!("afterUpgrade")));
    let volume = &report["volumes"][0];
    assert_eq!(volume["mountedWithContext"], json!({"before": false, "after": true}));
    assert_eq!(volume["users"].as_array().unwrap().len(), 2);
    assert_eq!(report["breaks"][0]["what"], "conflict");
}

/// Two workloads with different labels on a volume of a plugin that was built in, and the driver that has it now.
fn in_tree(driver: &str, source: &Value) -> Vec<Value> {
    let mut objects = two_labels("ReadWriteMany");
    for object in &mut objects {
        if object["kind"] == "PersistentVolume" {
            object["spec"].as_object_mut().unwrap().remove("csi");
            object["spec"].as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        } else if object["kind"] == "CSIDriver" {
            object["metadata"]["name"] = json!(driver);
        }
    }
    objects
}

#[test]
fn volumes_of_plugins_that_were_built_in_conflict_as_their_drivers() {
    let rows = [
        ("ebs.csi.aws.com", json!({"awsElasticBlockStore": {"volumeID": "vol-1"}})),
        ("pd.csi.storage.gke.io", json!({"gcePersistentDisk": {"pdName": "d"}})),
        (
            "disk.csi.azure.com",
            json!({"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/u/d", "kind": "Managed"}}),
        ),
        ("file.csi.azure.com", json!({"azureFile": {"secretName": "a", "shareName": "s"}})),
        ("cinder.csi.openstack.org", json!({"cinder": {"volumeID": "c"}})),
        ("csi.vsphere.vmware.com", json!({"vsphereVolume": {"volumePath": "p"}})),
        ("pxd.portworx.com", json!({"portworxVolume": {"volumeID": "p"}})),
    ];
    for (driver, source) in rows {
        let objects = in_tree(driver, &source);
        let report = check(&objects, "");
        let volume = report["conflicts"][0]["volume"].as_str().unwrap_or_default();
        assert!(volume.starts_with(&format!("kubernetes.io/csi/{driver}^")), "{source}: {volume:?}");
        assert_eq!(report["volumes"][0]["mountedWithContext"], json!({"before": false, "after": true}));
        assert_eq!(code(&objects, "--gate"), Some(1), "{source}");
        let other = in_tree("other.example.com", &source);
        assert_eq!(check(&other, "")["conflicts"], json!([]), "{source}: its driver is not installed");
    }
}

#[test]
fn disks_that_pods_name_themselves_conflict_as_persistent_ones() {
    let rows = [
        ("ebs.csi.aws.com", json!({"name": "data", "awsElasticBlockStore": {"volumeID": "vol-1"}})),
        ("pd.csi.storage.gke.io", json!({"name": "data", "gcePersistentDisk": {"pdName": "d"}})),
    ];
    for (driver, volume) in rows {
        let spec = json!({"volumes": [volume]}).to_string();
        let csi = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": driver},
            "spec": {"seLinuxMount": true}});
        let objects = [deployment("a", ONE, &spec), deployment("b", TWO, &spec), csi];
        let report = check(&objects, "");
        assert_eq!(report["conflicts"].as_array().unwrap().len(), 1, "{volume}");
        assert_eq!(report["conflicts"][0]["severity"], "mustMeet", "one node at a time");
        assert_eq!(report["volumes"][0]["driver"], driver);
        assert_eq!(code(&objects, "--gate"), Some(1), "{volume}");
        assert_eq!(code(&objects, "--gate --to 1.36"), Some(0), "not before 1.37");
    }
}

/// The KEP's list of what is no conflict.
#[test]
fn what_must_not_be_reported_is_not() {
    let recursive = |level: &str| {
        format!(r#"{{"seLinuxOptions": {{"level": "{level}"}}, "seLinuxChangePolicy": "Recursive"}}"#)
    };
    let typed = r#"{"seLinuxOptions": {"level": "s0:c2,c1", "type": "container_t"}}"#;
    let quiet: Vec<Vec<Value>> = vec![
        with_storage("ReadWriteMany", &[deployment("a", ONE, ""), deployment("b", ONE, "")]),
        with_storage("ReadWriteMany", &[deployment("a", ONE, ""), deployment("b", typed, "")]),
        with_storage(
            "ReadWriteMany",
            &[deployment("a", &recursive("s0:c1"), ""), deployment("b", &recursive("s0:c2"), "")],
        ),
        with_storage("ReadWriteMany", &[deployment("a", "", ""), deployment("b", "", "")]),
        [vec![deployment("a", ONE, ""), deployment("b", TWO, "")], storage("ReadWriteMany", false)].concat(),
    ];
    for objects in quiet {
        let report = check(&objects, "");
        assert_eq!(report["conflicts"], json!([]), "{objects:?}");
        assert_eq!(report["breaks"], json!([]));
    }
    let finished = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "shop", "uid": "1"},
        "spec": deployment("b", TWO, "")["spec"]["template"]["spec"], "status": {"phase": "Succeeded"}});
    let report = check(&with_storage("ReadWriteMany", &[deployment("a", ONE, ""), finished]), "");
    assert_eq!(report["conflicts"], json!([]));
}

#[test]
fn policies_and_missing_labels_conflict_too() {
    let recursive = r#"{"seLinuxOptions": {"level": "s0:c1,c2"}, "seLinuxChangePolicy": "Recursive"}"#;
    for other in [recursive, ""] {
        let report = check(
            &with_storage("ReadWriteMany", &[deployment("a", ONE, ""), deployment("b", other, "")]),
            "",
        );
        let properties: Vec<&Value> =
            report["conflicts"].as_array().unwrap().iter().map(|c| &c["property"]).collect();
        assert_eq!(properties, ["SELinuxChangePolicy", "SELinuxLabel"], "{other}");
        assert_eq!(report["breaks"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn how_near_a_conflict_is_follows_from_the_objects() {
    let on = |zone: &str| format!(r#"{{"nodeSelector": {{"zone": "{zone}"}}}}"#);
    let apart =
        with_storage("ReadWriteMany", &[deployment("a", ONE, &on("x")), deployment("b", TWO, &on("y"))]);
    let severity = |objects: &[Value]| check(objects, "")["conflicts"][0]["severity"].clone();
    assert_eq!(severity(&apart), "cannotMeet");
    assert_eq!(code(&apart, "--gate"), Some(0));
    assert_eq!(severity(&two_labels("ReadWriteOnce")), "mustMeet");
    let pod = |name: &str, context: &str, node: &str| {
        let mut spec = deployment(name, context, "")["spec"]["template"]["spec"].clone();
        spec["nodeName"] = json!(node);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": spec, "status": {"phase": "Running"}})
    };
    let live = |node: &str| with_storage("ReadWriteMany", &[pod("a", ONE, "n1"), pod("b", TWO, node)]);
    assert_eq!(severity(&live("n1")), "onOneNode");
    assert_eq!(severity(&live("n2")), "mayMeet");
    assert_eq!(check(&live("n1"), "")["conflicts"][0]["a"]["pod"], "a");
}

#[test]
fn the_gates_before_and_after_decide_what_an_upgrade_breaks() {
    let shared = two_labels("ReadWriteMany");
    for (words, when, exit) in [
        ("--gate", "afterUpgrade", 1),
        ("--gate --from 1.30 --to 1.37", "afterUpgrade", 1),
        ("--gate --to 1.36", "underSelinuxMount", 0),
        ("--gate --to 1.36 --feature-gates SELinuxMount=true", "afterUpgrade", 1),
        ("--gate --feature-gates SELinuxMount=false", "underSelinuxMount", 0),
        ("--gate --from 1.37 --to 1.37", "already", 0),
    ] {
        assert_eq!(check(&shared, words)["conflicts"][0]["when"], when, "{words}");
        assert_eq!(code(&shared, words), Some(exit), "{words}");
    }
    assert_eq!(code(&shared, ""), Some(0));
    assert_eq!(code(&shared, "--from 1.37 --to 1.36"), Some(2));
}

/// Puts a strategic merge patch onto an object as the API server would: lists of containers by name.
fn patched(mut object: Value, patch: &Value) -> Value {
    match (&mut object, patch) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                match (into.remove(key), value) {
                    (_, Value::Null) => {}
                    (old, value) => {
                        into.insert(key.clone(), patched(old.unwrap_or(json!({})), value));
                    }
                }
            }
            object
        }
        (Value::Array(into), Value::Array(from)) => {
            for item in from {
                let place = into.iter_mut().find(|old| old["name"] == item["name"]).unwrap();
                *place = patched(place.take(), item);
            }
            object
        }
        _ => patch.clone(),
    }
}

/// The objects with the patches of one way out put onto them.
fn settled(objects: &[Value], option: &Value) -> Vec<Value> {
    let patches = option["patches"].as_array().unwrap();
    let is_target = |object: &Value, patch: &Value| {
        object["kind"] == patch["kind"] && object["metadata"]["name"] == patch["name"]
    };
    let apply = |object: &Value| {
        let own = patches.iter().filter(|patch| is_target(object, patch));
        own.fold(object.clone(), |object, patch| patched(object, &patch["body"]))
    };
    objects.iter().map(apply).collect()
}

#[test]
fn every_way_out_that_is_named_removes_the_finding() {
    let own_options = r#"{"containers": [
        {"name": "app", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}],
         "securityContext": {"seLinuxOptions": {"level": "s0:c5,c6", "type": "t_t"}}},
        {"name": "side", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": "x"}]}]}"#;
    let privileged = r#"{"containers": [{"name": "app", "image": "i", "securityContext": {"privileged": true},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}"#;
    let recursive = r#"{"seLinuxOptions": {"level": "s0:c1,c2"}, "seLinuxChangePolicy": "Recursive"}"#;
    let cases = [
        two_labels("ReadWriteMany"),
        with_storage("ReadWriteMany", &[deployment("a", ONE, ""), deployment("b", "", privileged)]),
        with_storage("ReadWriteMany", &[deployment("a", ONE, ""), deployment("b", recursive, "")]),
        with_storage(
            "ReadWriteOnce",
            &[deployment("a", ONE, ""), deployment("b", TWO, ""), deployment("c", ONE, "")],
        ),
        with_storage("ReadWriteMany", &[deployment("b", "", own_options), deployment("a", TWO, "")]),
    ];
    for objects in cases {
        let report = check(&objects, "");
        let options = report["fixes"][0]["options"].as_array().unwrap();
        assert!(!options.is_empty() && !report["conflicts"].as_array().unwrap().is_empty(), "{report}");
        for option in options {
            let after = check(&settled(&objects, option), "");
            assert_eq!(after["conflicts"], json!([]), "{option}");
            assert_eq!(after["breaks"], json!([]), "{option}");
        }
    }
}

#[test]
fn equal_labels_come_before_opting_out_and_few_fields_before_many() {
    let objects = with_storage(
        "ReadWriteMany",
        &[deployment("a", ONE, ""), deployment("b", TWO, ""), deployment("c", ONE, "")],
    );
    let report = check(&objects, "");
    let options = report["fixes"][0]["options"].as_array().unwrap();
    let shown: Vec<(&str, &Value)> =
        options.iter().map(|o| (o["how"].as_str().unwrap(), &o["fields"])).collect();
    assert_eq!(shown, [("equalLabels", &json!(1)), ("equalLabels", &json!(2)), ("optOut", &json!(3))]);
    assert_eq!(options[0]["what"], "give Deployment b the level s0:c1,c2");
    let body = json!({"spec": {"template": {"spec": {"securityContext": {"seLinuxOptions": {"level": "s0:c1,c2"}}}}}});
    assert_eq!(options[0]["patches"][0]["body"], body);
    assert!(options.iter().all(|option| !option["givesUp"].as_array().unwrap().is_empty()));
}

#[test]
fn one_pod_that_needs_a_volume_with_two_labels_is_found_and_settled() {
    let spec = r#"{"containers": [
        {"name": "x", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}], "securityContext": {"seLinuxOptions": {"level": "s0:c1"}}},
        {"name": "y", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}], "securityContext": {"seLinuxOptions": {"level": "s0:c2"}}}]}"#;
    let objects = with_storage("ReadWriteMany", &[deployment("a", "", spec)]);
    let report = check(&objects, "");
    let finding = &report["workloads"][0]["selinux"]["findings"][0];
    assert_eq!(finding["what"], "MultipleSELinuxLabels");
    assert_eq!(finding["when"], "afterUpgrade");
    assert_eq!(finding["field"], "spec.template.spec.volumes[0]");
    assert_eq!(code(&objects, "--gate"), Some(1));
    let options = report["fixes"][0]["options"].as_array().unwrap();
    assert!(options.iter().all(|option| option["how"] == "equalLabels"), "{options:?}");
    for option in options {
        let after = check(&settled(&objects, option), "");
        assert_eq!(after["workloads"][0]["selinux"]["findings"], json!([]), "{option}");
    }
}

#[test]
fn labelled_and_unlabelled_containers_of_a_pod_that_share_a_volume_are_told() {
    let spec = r#"{"containers": [
        {"name": "x", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}], "securityContext": {"seLinuxOptions": {"level": "s0:c1"}}},
        {"name": "y", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}"#;
    let report = check(&with_storage("ReadWriteMany", &[deployment("a", "", spec)]), "");
    assert_eq!(report["workloads"][0]["selinux"]["findings"][0]["what"], "LabelledAndUnlabelled", "{report}");
}

/// A DaemonSet that runs the driver, with these paths of the host.
pub(crate) fn driver_daemon(paths: &[&str]) -> Value {
    let volumes: Vec<Value> = paths
        .iter()
        .enumerate()
        .map(|(i, path)| json!({"name": format!("v{i}"), "hostPath": {"path": path}}))
        .collect();
    let mounts: Vec<Value> =
        (0..paths.len()).map(|i| json!({"name": format!("v{i}"), "mountPath": format!("/m{i}")})).collect();
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "driver", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}}, "spec": {
            "containers": [
                {"name": "driver", "image": "i", "volumeMounts": mounts},
                {"name": "registrar", "image": "i", "args": ["--kubelet-registration-path=/var/lib/kubelet/plugins/d.example.com/csi.sock"]}],
            "volumes": volumes}}}})
}

#[test]
fn a_driver_that_claims_what_its_daemon_set_cannot_do_is_found() {
    let with =
        |paths: &[&str]| with_storage("ReadWriteMany", &[deployment("a", ONE, ""), driver_daemon(paths)]);
    let lacks = |paths: &[&str]| check(&with(paths), "")["drivers"][0]["lacks"].clone();
    assert_eq!(lacks(&["/var/lib/kubelet"]), json!(["/sys/fs/selinux", "/etc/selinux"]));
    assert_eq!(lacks(&["/sys", "/etc/selinuxx"]), json!(["/etc/selinux"]));
    assert_eq!(lacks(&["/sys/fs/selinux", "/etc/selinux/"]), Value::Null);
    assert_eq!(code(&with(&["/sys"]), "--gate"), Some(1));
    assert_eq!(code(&with(&["/sys", "/etc"]), "--gate"), Some(0));
}

#[test]
fn a_claim_that_nobody_has_shown_is_taken_to_be_mounted_with_a_context() {
    let report = check(&[deployment("a", ONE, ""), deployment("b", TWO, "")], "");
    assert_eq!(report["conflicts"][0]["volume"], "claim/shop/data", "{report}");
    assert_eq!(code(&[deployment("a", ONE, ""), deployment("b", TWO, "")], "--gate"), Some(1));
    let other_namespace = |name: &str, context: &str| {
        let mut object = deployment(name, context, "");
        object["metadata"]["namespace"] = json!("other");
        object
    };
    let apart = [deployment("a", ONE, ""), other_namespace("b", TWO)];
    assert_eq!(check(&apart, "")["conflicts"], json!([]));
}

#[test]
fn a_workload_that_makes_no_pods_conflicts_with_nobody() {
    let mut idle = deployment("b", TWO, "");
    idle["spec"]["replicas"] = json!(0);
    assert_eq!(
        check(&with_storage("ReadWriteMany", &[deployment("a", ONE, ""), idle]), "")["conflicts"],
        json!([])
    );
}

#[test]
fn thousands_of_pods_of_two_workloads_are_one_conflict() {
    let pod = |owner: &str, number: usize, context: &str| {
        let mut spec = deployment(owner, context, "")["spec"]["template"]["spec"].clone();
        spec["nodeName"] = json!(format!("n{}", number % 10));
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{owner}-{number}"), "namespace": "shop",
            "uid": format!("{owner}-{number}"), "labels": {"pod-template-hash": "1"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{owner}-1"), "uid": "u", "controller": true}]},
            "spec": spec, "status": {"phase": "Running"}})
    };
    let pods: Vec<Value> = (0..500).flat_map(|n| [pod("a", n, ONE), pod("b", n, TWO)]).collect();
    let report = check(&with_storage("ReadWriteMany", &pods), "");
    let conflicts = report["conflicts"].as_array().unwrap();
    assert_eq!(conflicts.len(), 1);
    assert_eq!((&conflicts[0]["pairs"], &conflicts[0]["a"]["pods"]), (&json!(250_000), &json!(500)));
    assert_eq!(conflicts[0]["severity"], "onOneNode");
}

#[test]
fn hundreds_of_pods_of_nobodys_are_one_conflict_and_each_of_them_is_named() {
    let pod = |number: usize| {
        let context = if number.is_multiple_of(2) { ONE } else { TWO };
        let name = format!("p{number:03}");
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": deployment("a", context, "")["spec"]["template"]["spec"]})
    };
    let sized = |count: usize| {
        let report = check(&with_storage("ReadWriteMany", &(0..count).map(pod).collect::<Vec<_>>()), "");
        (report.to_string().len(), report)
    };
    let (small, _) = sized(100);
    let (large, report) = sized(300);
    assert!(large < 4 * small, "{small} bytes for 100 pods, {large} for 300");
    let conflicts = report["conflicts"].as_array().unwrap();
    assert_eq!(conflicts.len(), 1);
    let (a, b) = (&conflicts[0]["a"], &conflicts[0]["b"]);
    assert_eq!((&a["kind"], &a["namespace"], &a["name"]), (&json!("Pod"), &json!("shop"), &json!("*")));
    assert_eq!((&a["pods"], &b["pods"], &conflicts[0]["pairs"]), (&json!(150), &json!(150), &json!(22_500)));
    assert_eq!(report["breaks"][0]["workloads"].as_array().unwrap().len(), 300);
    assert_eq!(report["volumes"][0]["users"].as_array().unwrap().len(), 300);
    let what = report["fixes"][0]["options"][0]["what"].as_str().unwrap();
    assert!(what.starts_with("give Pod p000, ") && what.contains(" and 142 more the level s0:c"), "{what}");
}

#[test]
fn patches_are_written_for_kubectl_and_for_kustomize() {
    let host = Host::new();
    host.write("dump.json", &list(&two_labels("ReadWriteMany")));
    host.done("check HOST/dump.json --write-patches HOST/k");
    let read = |path: &str| std::fs::read_to_string(host.path(path)).unwrap();
    assert_eq!(
        read("k/selinux/shop-deployment-a.yaml"),
        "# kubectl patch deployment a -n shop --patch-file shop-deployment-a.yaml
spec:
  template:
    spec:
      securityContext:
        seLinuxOptions:
          level: s0:c3,c4
"
    );
    assert!(read("k/user-namespaces/shop-deployment-a.yaml").contains("hostUsers: false"));
    host.done("check HOST/dump.json --write-patches HOST/z --patch-format kustomize");
    let component = read("z/selinux/kustomization.yaml");
    assert!(
        component.contains("kind: Component") && component.contains("path: shop-deployment-a.yaml"),
        "{component}"
    );
    let patch = read("z/selinux/shop-deployment-a.yaml");
    assert!(
        patch.contains("kind: Deployment") && patch.contains("name: a") && patch.contains("namespace: shop"),
        "{patch}"
    );
}

#[test]
fn a_pod_that_asked_in_vain_breaks_when_it_is_heard() {
    let asking = deployment("a", "", r#"{"hostUsers": false, "hostPID": true}"#);
    let mut live = asking;
    live["metadata"]["uid"] = json!("1");
    let report = check(&[live.clone()], "--from 1.32 --to 1.36");
    assert_eq!(report["breaks"][0]["what"], "userNamespace", "{report}");
    assert_eq!(code(&[live.clone()], "--gate --from 1.32 --to 1.36"), Some(1));
    assert_eq!(code(&[live], "--gate --from 1.35 --to 1.36"), Some(0));
}
