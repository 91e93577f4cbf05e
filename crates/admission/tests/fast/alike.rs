//! `explain` and `run` decide alike: what one shows as a verdict, the other does.

use std::collections::BTreeSet;

use admission::{PodOrigin, RunningPods, admit, consider, runnable};
use manifest::Object;
use plan::{Facts, Gates, Policy};

const NODE: &str = "node-1";

const FACTS: &str = r#"{
    "kernel": {"userNamespaces": "yes", "maxUserNamespaces": 1000, "idmappedMounts": "yes"},
    "filesystems": {"idmap": {"ext4": "yes", "tmpfs": "yes"},
        "kinds": {"emptyDir": "ext4", "configMap": "ext4"}, "paths": {"/": "ext4"}},
    "runtime": {"handlers": {"": {"userNamespaces": true, "recursiveReadOnlyMounts": true}},
        "userNamespacesHostNetwork": false},
    "selinux": {"state": "disabled", "defaults": null},
    "pool": {"length": 65536, "longest": 65536, "blocks": 10, "origin": "a test"}
}"#;

/// Every kind of volume, and whether a pod with it is run.
const VOLUMES: &[(&str, &str, bool)] = &[
    ("emptyDir", "{}", true),
    ("hostPath", "{path: /srv}", true),
    ("configMap", "{name: c}", true),
    ("secret", "{secretName: s}", true),
    ("downwardAPI", "{items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}", true),
    ("projected", "{sources: [{configMap: {name: c}}]}", true),
    ("image", "{reference: 'registry.example/data:1'}", true),
    ("persistentVolumeClaim", "{claimName: c}", false),
    (
        "ephemeral",
        "{volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}",
        false,
    ),
    ("csi", "{driver: d.example.com}", false),
    ("nfs", "{server: s, path: /p}", false),
    ("iscsi", "{targetPortal: 't:3260', iqn: 'iqn.2001-04.com.example:x', lun: 0}", false),
    ("fc", "{targetWWNs: ['50060e801049cfd1'], lun: 0}", false),
    ("awsElasticBlockStore", "{volumeID: v}", false),
    ("azureDisk", "{diskName: d, diskURI: u}", false),
    ("azureFile", "{secretName: s, shareName: files}", false),
    ("cephfs", "{monitors: ['m:6789']}", false),
    ("cinder", "{volumeID: v}", false),
    ("flexVolume", "{driver: d/e}", false),
    ("flocker", "{datasetName: d}", false),
    ("gcePersistentDisk", "{pdName: p}", false),
    ("gitRepo", "{repository: r}", false),
    ("glusterfs", "{endpoints: e, path: p}", false),
    ("photonPersistentDisk", "{pdID: p}", false),
    ("portworxVolume", "{volumeID: v}", false),
    ("quobyte", "{registry: 'r:1', volume: v}", false),
    ("rbd", "{monitors: ['m:6789'], image: i}", false),
    ("scaleIO", "{gateway: g, system: s, volumeName: v, secretRef: {name: s}}", false),
    ("storageos", "{volumeName: v}", false),
    ("vsphereVolume", "{volumePath: p}", false),
];

/// Lines of a pod's spec, and whether the pod is run.
const FIELDS: &[(&str, bool)] = &[
    ("", true),
    ("hostUsers: false", true),
    ("nodeName: node-1", true),
    ("nodeSelector: {kubernetes.io/hostname: node-1}", true),
    ("nodeName: elsewhere", false),
    ("nodeSelector: {disk: ssd}", false),
    ("ephemeralContainers: [{name: e, image: 'registry.example/debug:1'}]", false),
    ("resources: {limits: {cpu: '1'}}", false),
    ("overhead: {cpu: '1'}", false),
    ("schedulingGates: [{name: example.com/wait}]", false),
    ("resourceClaims: [{name: gpu, resourceClaimName: gpu}]", false),
    (
        "setHostnameAsFQDN: true, hostname: abcdefghijklmnopqrstuvwxyz-abcdefghijkl, subdomain: abcdefghijklmnopqrstuvwxyz",
        false,
    ),
    ("hostUsers: false, hostPID: true", false),
    ("os: {name: windows}", false),
    ("volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]", false),
    ("volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {name: b, path: t}}]}}]", false),
    (
        "volumes: [{name: v, projected: {sources: [{podCertificate: {signerName: a.b/c, keyType: ED25519, keyPath: k}}]}}]",
        false,
    ),
];

/// Lines of its container, and whether the pod is run.
const CONTAINERS: &[(&str, bool)] = &[
    ("env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]", true),
    ("env: [{name: A, valueFrom: {fileKeyRef: {key: k, path: p, volumeName: v}}}]", true),
    ("volumeDevices: [{name: v, devicePath: /dev/x}]", false),
];

fn pod(fields: &str, container: &str) -> Vec<Object> {
    let joined = |text: &str| if text.is_empty() { String::new() } else { format!("{text}, ") };
    let text = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{{}containers: [{{{}name: c, image: i}}]}}}}",
        joined(fields),
        joined(container)
    );
    let reading = manifest::read("p.yaml", text.as_bytes());
    assert!(reading.findings.is_empty(), "{text}: {:?}", reading.findings);
    reading.objects
}

/// Whether `explain` says that the pod runs, and whether `run` starts it.
fn decided(objects: &[Object]) -> (bool, bool) {
    let facts: Facts = serde_json::from_str(FACTS).unwrap();
    let (gates, policy) = (Gates::default(), Policy::default());
    let candidates = consider(objects, &gates);
    let explained = candidates[0].judge(&facts, &policy, Some(NODE)).outcome;
    let decision = admit(&candidates, &facts, &policy, NODE, &RunningPods::default());
    // The agent looks once more, and must find nothing.
    let is_run = |admitted: &admission::Admitted| runnable(&admitted.pod, NODE, PodOrigin::Manifests).is_ok();
    if let (Err(said), Some(refused)) = (&explained, decision.refused.first()) {
        assert!(!said.is_empty() && *said == refused.refusals, "{said:?}");
    }
    (explained.is_ok(), decision.admitted.first().is_some_and(is_run))
}

#[test]
fn every_kind_of_volume_is_judged_alike() {
    for users in ["hostUsers: false, ", ""] {
        for (kind, source, runs) in VOLUMES {
            let objects = pod(
                &format!("{users}volumes: [{{name: v, {kind}: {source}}}]"),
                "volumeMounts: [{name: v, mountPath: /v}]",
            );
            assert_eq!(decided(&objects), (*runs, *runs), "{users}{kind}");
        }
    }
}

#[test]
fn every_field_that_is_not_run_is_judged_alike() {
    for (fields, runs) in FIELDS {
        assert_eq!(decided(&pod(fields, "")), (*runs, *runs), "{fields}");
    }
    for (container, runs) in CONTAINERS {
        let objects = pod("volumes: [{name: v, emptyDir: {}}]", container);
        assert_eq!(decided(&objects), (*runs, *runs), "{container}");
    }
}

#[test]
fn the_table_has_every_kind_of_volume_that_the_document_lists() {
    let document = include_str!("../../../../docs/podspec.md");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `Volume` | `"));
    let listed: BTreeSet<&str> = rows
        .flat_map(|row| row.split('`').next().unwrap().split_whitespace())
        .filter(|field| *field != "name")
        .collect();
    assert_eq!(listed, VOLUMES.iter().map(|(kind, ..)| *kind).collect());
}

#[test]
fn a_refusal_names_its_place_and_the_plan_for_elsewhere_is_kept() {
    let objects = pod(
        "hostUsers: false, volumes: [{name: a, emptyDir: {}}, {name: v, persistentVolumeClaim: {claimName: c}}]",
        "volumeMounts: [{name: v, mountPath: /v}]",
    );
    let facts: Facts = serde_json::from_str(FACTS).unwrap();
    let candidates = consider(&objects, &Gates::default());
    let verdict = candidates[0].judge(&facts, &Policy::default(), None);
    let refusals = verdict.outcome.unwrap_err();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert_eq!(refusals[0].field, "spec.volumes[1].persistentVolumeClaim");
    assert!(refusals[0].at.as_deref().unwrap().starts_with("p.yaml:1:"), "{refusals:?}");
    assert_eq!(verdict.elsewhere.unwrap().mounts[0].volume, "v");
}
