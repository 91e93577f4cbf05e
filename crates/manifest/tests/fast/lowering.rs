//! From a manifest to an intent.

use manifest::{Cluster, Finding, Reading, lower, read};
use plan::{
    AccessMode, ChangePolicy, Intent, Medium, MountPropagation, PersistentSource, ProcMount,
    RecursiveReadOnly, Stage, VolumeChoice, VolumeSource,
};

fn reading(text: &str) -> Reading {
    let reading = read("m.yaml", text.as_bytes());
    assert!(reading.findings.is_empty(), "{:?}", reading.findings);
    reading
}

fn lowered(text: &str) -> Result<Intent, Vec<Finding>> {
    let reading = reading(text);
    let cluster = Cluster::of(&reading.objects);
    let pod = reading.objects.iter().find_map(|o| o.pod()).unwrap();
    lower(&pod, &cluster)
}

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
  uid: 0a
  annotations: {wardlet.dev/ids: \"131072\", wardlet.dev/volume-policy: sharedBlock}
spec:
  hostUsers: false
  runtimeClassName: sandboxed
  securityContext:
    runAsUser: 1000
    fsGroup: 7
    supplementalGroups: [8, 9]
    seLinuxOptions: {level: 's0:c1,c2', type: container_t}
    seLinuxChangePolicy: Recursive
  initContainers:
  - name: first
    image: i
    securityContext: {runAsUser: 0, procMount: Unmasked, capabilities: {add: [CAP_CHOWN, NET_ADMIN]}}
  containers:
  - name: main
    image: i
    ports: [{containerPort: 80, hostPort: 8080}, {containerPort: 81}]
    securityContext: {privileged: true, seLinuxOptions: {level: s0}}
    volumeMounts:
    - {name: scratch, mountPath: /s, subPath: a/b}
    - {name: data, mountPath: /d, readOnly: true, recursiveReadOnly: IfPossible, mountPropagation: HostToContainer}
  volumes:
  - {name: scratch, emptyDir: {medium: Memory}}
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: other, persistentVolumeClaim: {claimName: unknown}}
  - {name: old, rbd: {monitors: [a], image: b}}
  - {name: host, hostPath: {path: /srv}}
  - {name: quick, csi: {driver: d.example.com}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {accessModes: [ReadWriteOncePod], volumeName: pv-1, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1}
spec: {accessModes: [ReadWriteOncePod], capacity: {storage: 1Gi}, csi: {driver: d.example.com, volumeHandle: h, fsType: xfs}}
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: d.example.com}
spec: {seLinuxMount: true}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: sandboxed}
handler: runsc
";

#[test]
fn a_pod_and_the_objects_it_names_become_an_intent() {
    let intent = lowered(POD).unwrap();
    assert_eq!((intent.pod.namespace.as_str(), intent.pod.name.as_str()), ("shop", "web"));
    assert_eq!((intent.host_users, intent.asked_by.as_str()), (Some(false), "spec.hostUsers"));
    assert_eq!((intent.ids, intent.volume_policy), (Some(131_072), Some(VolumeChoice::SharedBlock)));
    assert_eq!(
        (intent.change_policy, intent.runtime_handler.as_str()),
        (Some(ChangePolicy::Recursive), "runsc")
    );
    assert_eq!(intent.fs_group.map(u32::from), Some(7));
    assert_eq!(intent.supplemental_groups.iter().map(|g| g.get()).collect::<Vec<_>>(), [8, 9]);
    assert_eq!(intent.selinux.unwrap().kind(), Some("container_t"));
}

#[test]
fn what_holds_for_a_container_is_its_own_or_else_the_pods() {
    let intent = lowered(POD).unwrap();
    let [first, main] = intent.containers.as_slice() else { panic!() };
    assert_eq!((first.stage, main.stage), (Stage::Init, Stage::Main));
    assert_eq!((first.run_as_user.map(u32::from), main.run_as_user.map(u32::from)), (Some(0), Some(1000)));
    assert_eq!(
        (first.proc_mount, first.capabilities.add.join(" ")),
        (ProcMount::Unmasked, "CHOWN NET_ADMIN".into())
    );
    assert_eq!(
        (first.field.as_str(), main.host_ports.as_slice()),
        ("spec.initContainers[0]", [8080].as_slice())
    );
    assert!(main.privileged && first.selinux.is_none());
    let [scratch, data] = main.mounts.as_slice() else { panic!() };
    assert_eq!(
        (scratch.sub_path.as_deref(), data.field.as_str()),
        (Some("a/b"), "spec.containers[0].volumeMounts[1]")
    );
    assert_eq!(
        (data.recursive_read_only, data.propagation),
        (RecursiveReadOnly::IfPossible, MountPropagation::HostToContainer)
    );
}

#[test]
fn volumes_are_followed_to_what_they_are_made_of() {
    let intent = lowered(POD).unwrap();
    let source = |name: &str| intent.volume(name).unwrap().source.clone();
    assert_eq!(source("scratch"), VolumeSource::EmptyDir(Medium::Memory));
    let VolumeSource::Persistent(volume) = source("data") else { panic!() };
    assert_eq!(
        (volume.access_modes.as_slice(), volume.fs_type.as_deref()),
        ([AccessMode::ReadWriteOncePod].as_slice(), Some("xfs"))
    );
    assert_eq!(
        volume.source,
        PersistentSource::Csi { driver: "d.example.com".into(), selinux_mount: Some(true) }
    );
    assert_eq!(source("other"), VolumeSource::Claim { name: "unknown".into() });
    assert_eq!(source("old"), VolumeSource::Other("rbd".into()));
    assert_eq!(source("host"), VolumeSource::HostPath { path: "/srv".into() });
    assert_eq!(source("quick"), VolumeSource::CsiInline { driver: "d.example.com".into() });
    assert_eq!(intent.volume("data").unwrap().field, "spec.volumes[1]");
}

#[test]
fn a_workloads_pods_are_lowered_from_its_template() {
    let text = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec:\n  schedule: x\n  jobTemplate: {spec: {template: {spec: {hostUsers: false, hostNetwork: true, containers: [{name: c, ports: [{containerPort: 9}]}]}}}}\n";
    let intent = lowered(text).unwrap();
    assert_eq!(intent.pod.name, "nightly");
    assert_eq!(intent.asked_by, "spec.jobTemplate.spec.template.spec.hostUsers");
    assert_eq!(intent.containers[0].field, "spec.jobTemplate.spec.template.spec.containers[0]");
    assert_eq!(intent.containers[0].host_ports, [9], "with the host's network, its ports are the host's");
}

#[test]
fn an_annotation_of_ours_that_says_nothing_we_know_is_refused() {
    let found = lowered(&POD.replace("131072", "many").replace("sharedBlock", "whatever")).unwrap_err();
    let said: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2);
    assert!(
        said[0].starts_with("m.yaml:8:17: metadata.annotations[wardlet.dev/ids]: \"many\": must be"),
        "{said:?}"
    );
    assert!(lowered(&POD.replace("131072", "65537")).is_err());
}

#[test]
fn a_volume_that_names_its_claim_is_found_too() {
    let text = POD.replace("volumeName: pv-1, ", "").replace(
        "volumeHandle: h, fsType: xfs}",
        "volumeHandle: h}, claimRef: {namespace: shop, name: data}",
    );
    let VolumeSource::Persistent(volume) = lowered(&text).unwrap().volume("data").unwrap().source.clone()
    else {
        panic!()
    };
    assert_eq!((volume.name.as_str(), volume.fs_type), ("pv-1", None));
}

/// A StatefulSet's pods have a volume for each claim template, which no list of volumes names.
#[test]
fn claim_templates_of_a_stateful_set_are_volumes_of_its_pods() {
    let text = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - {name: db, image: i, volumeMounts: [{name: data, mountPath: /data}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";
    let intent = lowered(text).unwrap();
    assert_eq!(intent.volume("data").unwrap().source, VolumeSource::Claim { name: "data-db".into() });
    let object = &reading(text).objects[0];
    assert_eq!(manifest::validate(object, &plan::Gates::default()), []);
}
