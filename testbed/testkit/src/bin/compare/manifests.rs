//! Manifests from a seed: workloads of every kind around pods of many shapes, volumes and their claims, and mistakes.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use testkit::Dice;

use crate::programs::Scratch;

/// A manifest, and the options of the commands that read it.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) explain: Vec<String>,
    pub(crate) check: Vec<String>,
}

impl Case {
    /// A manifest that is there, without options but for those that every case has.
    pub(crate) fn of_file(name: String, file: &Path, scratch: &Scratch) -> anyhow::Result<Self> {
        Ok(Self { name, file: file.to_owned(), explain: facts(scratch)?, check: vec!["--gate".to_owned()] })
    }
}

/// A node with SELinux, where overlay and NFS cannot be idmapped. The same in every run: `explain` does not ask the machine.
fn facts(scratch: &Scratch) -> anyhow::Result<Vec<String>> {
    let file = scratch.path("facts.json");
    let facts = json!({
        "kernel": {"userNamespaces": "yes", "maxUserNamespaces": 96343, "idmappedMounts": "yes"},
        "filesystems": {
            "idmap": {"ext4": "yes", "tmpfs": "yes", "overlay": {"no": "EINVAL"}, "nfs": {"no": "EINVAL"}},
            "kinds": {"emptyDir": "ext4"}, "paths": {"/": "ext4", "/srv": "nfs"}, "setuid": {},
        },
        "runtime": {
            "handlers": {"": {"userNamespaces": true, "recursiveReadOnlyMounts": true},
                "plain": {"userNamespaces": false, "recursiveReadOnlyMounts": false}},
            "userNamespacesHostNetwork": false,
        },
        "selinux": {"state": "enforcing", "defaults": null},
        "pool": {"length": 65536, "longest": 1_073_741_824, "blocks": 65534, "origin": "test"},
    });
    std::fs::write(&file, facts.to_string())?;
    Ok(vec!["--facts".to_owned(), file.display().to_string()])
}

/// Writes so many manifests.
pub(crate) fn write(scratch: &Scratch, count: usize, seed: u64) -> anyhow::Result<Vec<Case>> {
    let directory = scratch.path("manifests");
    std::fs::create_dir(&directory)?;
    let facts = facts(scratch)?;
    let mut dice = Dice::seeded(seed);
    (0..count)
        .map(|number| {
            let name = format!("generated-{number:03}.yaml");
            let file = directory.join(&name);
            let text = manifest(&mut dice, number);
            std::fs::write(&file, text).with_context(|| file.display().to_string())?;
            let (explain, check) = (explain_options(&mut dice, &facts), check_options(&mut dice, &facts));
            Ok(Case { name, file, explain, check })
        })
        .collect()
}

fn explain_options(dice: &mut Dice, facts: &[String]) -> Vec<String> {
    let options: &[&str] = dice.pick(&[
        &[][..],
        &["--kubernetes", "1.33"],
        &["--kubernetes", "1.36"],
        &["--kubernetes", "1.35", "--feature-gates", "UserNamespacesSupport=false"],
        &["--feature-gates", "UserNamespacesHostNetworkSupport=true"],
        &["--feature-gates", "SELinuxMount=false"],
    ]);
    // A third is explained for this machine.
    let facts = if dice.below(3) == 0 { &[] } else { facts };
    facts.iter().cloned().chain(options.iter().map(|&word| word.to_owned())).collect()
}

fn check_options(dice: &mut Dice, facts: &[String]) -> Vec<String> {
    let options: &[&str] = dice.pick(&[
        &[][..],
        &["--gate"],
        &["--to", "1.36"],
        &["--from", "1.33", "--to", "1.37", "--gate"],
        &["--feature-gates", "SELinuxMount=false"],
        &["--patch-format", "kustomize"],
    ]);
    let facts = if dice.coin() { &[] } else { facts };
    facts.iter().cloned().chain(options.iter().map(|&word| word.to_owned())).collect()
}

/// One to three workloads that share claims, and the objects behind the claims; one manifest in five has a mistake.
fn manifest(dice: &mut Dice, number: usize) -> String {
    let mut objects: Vec<Value> =
        (0..=dice.below(3)).map(|index| workload(dice, &format!("w{number}-{index}"))).collect();
    if dice.coin() {
        objects.extend(storage(dice));
    }
    let mistake = dice.below(5) == 0;
    if mistake && let Some(object) = objects.first_mut() {
        spoil(dice, object);
    }
    let documents: Vec<String> = objects.iter().map(|object| format!("{object:#}\n")).collect();
    let text = documents.join("---\n");
    match dice.below(60) {
        0 => text.replacen(':', "", 1),
        1 => format!("{text}---\n- a list\n"),
        2 => String::new(),
        _ => text,
    }
}

fn workload(dice: &mut Dice, name: &str) -> Value {
    let spec = pod_spec(dice);
    let annotations = dice.pick(&[
        json!({}),
        json!({}),
        json!({"wardlet.dev/ids": "131072"}),
        json!({"wardlet.dev/ids": "many"}),
        json!({"wardlet.dev/user-namespace": "true"}),
        json!({"wardlet.dev/volume-policy": "shared"}),
        json!({"io.kubernetes.cri-o.userns-mode": "auto"}),
    ]);
    let namespace = dice.pick(&["default", "team"]);
    if dice.coin() {
        let metadata = json!({"name": name, "namespace": namespace, "annotations": annotations});
        return json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    }
    let metadata = json!({"name": name, "namespace": namespace});
    let template = json!({"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": spec});
    let selector = json!({"matchLabels": {"app": name}});
    let job = json!({"template": template});
    let (version, kind, spec) = match dice.below(5) {
        0 => (
            "apps/v1",
            "Deployment",
            json!({"replicas": dice.below(4), "selector": selector, "template": template}),
        ),
        1 => (
            "apps/v1",
            "StatefulSet",
            json!({"serviceName": name, "selector": selector, "template": template}),
        ),
        2 => ("apps/v1", "DaemonSet", json!({"selector": selector, "template": template})),
        3 => ("batch/v1", "Job", job),
        _ => ("batch/v1", "CronJob", json!({"schedule": "0 * * * *", "jobTemplate": {"spec": job}})),
    };
    json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
}

/// How rich pods are: a field of a list is set in one of so many. In rich pods, most are refused for one field or another.
#[derive(Clone, Copy)]
struct Odds(usize);

impl Odds {
    /// Sets some of the fields, each to one of its values.
    fn set(self, dice: &mut Dice, object: &mut Value, fields: &[(&str, &[Value])]) {
        for (name, values) in fields {
            if dice.below(self.0) == 0 {
                put(object, "", name, dice.pick(values));
            }
        }
    }

    fn hit(self, dice: &mut Dice) -> bool {
        dice.below(self.0) < 2
    }
}

fn pod_spec(dice: &mut Dice) -> Value {
    let odds = Odds(dice.pick(&[4, 10, 30]));
    let volumes: Vec<Value> = (0..dice.below(5)).map(|index| volume(dice, odds, index)).collect();
    let containers: Vec<Value> =
        (0..=dice.below(2)).map(|index| container(dice, odds, index, &volumes)).collect();
    let mut spec = json!({"containers": containers});
    if dice.below(4) > 0 {
        put(&mut spec, "", "hostUsers", json!(dice.below(3) == 0));
    }
    let fields: [(&str, &[Value]); 11] = [
        ("hostNetwork", &[json!(false), json!(true)]),
        ("hostPID", &[json!(false), json!(true)]),
        ("hostIPC", &[json!(false), json!(true)]),
        ("shareProcessNamespace", &[json!(true)]),
        ("restartPolicy", &[json!("Always"), json!("Never"), json!("OnFailure")]),
        ("runtimeClassName", &[json!("plain"), json!("gvisor")]),
        ("nodeSelector", &[json!({"disk": "ssd"})]),
        ("serviceAccountName", &[json!("robot")]),
        ("terminationGracePeriodSeconds", &[json!(0), json!(30)]),
        ("dnsPolicy", &[json!("Default"), json!("ClusterFirst")]),
        ("hostname", &[json!("here")]),
    ];
    odds.set(dice, &mut spec, &fields);
    if odds.hit(dice) {
        let context = pod_security_context(dice, odds);
        put(&mut spec, "", "securityContext", context);
    }
    if dice.below(4) == 0 {
        let mut first = container(dice, odds, 9, &volumes);
        if dice.coin() {
            put(&mut first, "", "restartPolicy", json!("Always"));
        }
        put(&mut spec, "", "initContainers", json!([first]));
    }
    if !volumes.is_empty() {
        put(&mut spec, "", "volumes", json!(volumes));
    }
    spec
}

fn pod_security_context(dice: &mut Dice, odds: Odds) -> Value {
    let mut context = json!({});
    let fields: [(&str, &[Value]); 9] = [
        ("runAsUser", &[json!(0), json!(1000), json!(65535), json!(70000)]),
        ("runAsGroup", &[json!(0), json!(1000), json!(100_000)]),
        ("runAsNonRoot", &[json!(true), json!(false)]),
        ("fsGroup", &[json!(2000), json!(90000)]),
        ("fsGroupChangePolicy", &[json!("OnRootMismatch"), json!("Always")]),
        ("supplementalGroups", &[json!([1, 2]), json!([70001])]),
        ("seLinuxChangePolicy", &[json!("Recursive"), json!("MountOption")]),
        ("seccompProfile", &[json!({"type": "RuntimeDefault"}), json!({"type": "Unconfined"})]),
        ("sysctls", &[json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}])]),
    ];
    odds.set(dice, &mut context, &fields);
    if dice.coin() {
        let options = selinux_options(dice);
        put(&mut context, "", "seLinuxOptions", options);
    }
    context
}

fn selinux_options(dice: &mut Dice) -> Value {
    dice.pick(&[
        json!({"level": "s0:c10,c20"}),
        json!({"level": "s0:c1,c2"}),
        json!({"level": "s0:c2,c1"}),
        json!({"type": "container_t", "level": "s0:c10,c20"}),
        json!({"type": "spc_t"}),
        json!({"user": "system_u", "role": "system_r", "type": "container_t", "level": "s0"}),
        json!({"level": "nonsense"}),
        json!({}),
    ])
}

fn container(dice: &mut Dice, odds: Odds, index: usize, volumes: &[Value]) -> Value {
    let mut container = json!({"name": format!("c{index}"), "image": "registry.example/app:1"});
    let fields: [(&str, &[Value]); 7] = [
        ("command", &[json!(["sleep", "1000"])]),
        (
            "env",
            &[
                json!([{"name": "A", "value": "1"}]),
                json!([{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            ],
        ),
        ("ports", &[json!([{"containerPort": 80}]), json!([{"containerPort": 80, "hostPort": 8080}])]),
        (
            "resources",
            &[json!({"limits": {"memory": "64Mi", "cpu": "500m"}}), json!({"requests": {"cpu": "2"}})],
        ),
        (
            "livenessProbe",
            &[json!({"tcpSocket": {"port": 80}}), json!({"exec": {"command": ["true"]}, "periodSeconds": 3})],
        ),
        ("imagePullPolicy", &[json!("Always"), json!("Never")]),
        ("workingDir", &[json!("/srv")]),
    ];
    odds.set(dice, &mut container, &fields);
    if odds.hit(dice) {
        let context = container_security_context(dice, odds);
        put(&mut container, "", "securityContext", context);
    }
    let mounts: Vec<Value> =
        volumes.iter().enumerate().map(|(at, volume)| mount(dice, odds, at, volume)).collect();
    if !mounts.is_empty() {
        put(&mut container, "", "volumeMounts", json!(mounts));
    }
    container
}

fn container_security_context(dice: &mut Dice, odds: Odds) -> Value {
    let mut context = json!({});
    let fields: [(&str, &[Value]); 7] = [
        ("privileged", &[json!(true), json!(false)]),
        ("allowPrivilegeEscalation", &[json!(false), json!(true)]),
        ("readOnlyRootFilesystem", &[json!(true)]),
        ("runAsUser", &[json!(0), json!(1000), json!(66000)]),
        (
            "capabilities",
            &[
                json!({"drop": ["ALL"]}),
                json!({"add": ["NET_ADMIN", "SYS_ADMIN"]}),
                json!({"add": ["SYS_MODULE"]}),
            ],
        ),
        ("procMount", &[json!("Unmasked"), json!("Default")]),
        (
            "seccompProfile",
            &[json!({"type": "Localhost", "localhostProfile": "a.json"}), json!({"type": "RuntimeDefault"})],
        ),
    ];
    odds.set(dice, &mut context, &fields);
    if dice.below(3) == 0 {
        let options = selinux_options(dice);
        put(&mut context, "", "seLinuxOptions", options);
    }
    context
}

fn mount(dice: &mut Dice, odds: Odds, index: usize, volume: &Value) -> Value {
    let mut mount = json!({"name": volume["name"], "mountPath": format!("/v{index}")});
    let fields: [(&str, &[Value]); 5] = [
        ("readOnly", &[json!(true), json!(false)]),
        ("subPath", &[json!("part"), json!("a/b"), json!("../up")]),
        ("mountPropagation", &[json!("None"), json!("HostToContainer"), json!("Bidirectional")]),
        ("recursiveReadOnly", &[json!("Enabled"), json!("IfPossible"), json!("Disabled")]),
        ("subPathExpr", &[json!("$(N)/x")]),
    ];
    odds.set(dice, &mut mount, &fields);
    mount
}

fn volume(dice: &mut Dice, odds: Odds, index: usize) -> Value {
    let usual = [
        json!({"emptyDir": {}}),
        json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
        json!({"configMap": {"name": "settings", "optional": true}}),
        json!({"secret": {"secretName": "key", "defaultMode": 256}}),
        json!({"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}),
        json!({"persistentVolumeClaim": {"claimName": "data"}}),
    ];
    let other = [
        json!({"emptyDir": {"medium": "HugePages"}}),
        json!({"projected": {"sources": [{"configMap": {"name": "settings"}}, {"serviceAccountToken": {"path": "token"}}]}}),
        json!({"hostPath": {"path": "/srv/data"}}),
        json!({"hostPath": {"path": "/opt/tools", "type": "DirectoryOrCreate"}}),
        json!({"hostPath": {"path": "/"}}),
        json!({"persistentVolumeClaim": {"claimName": "lost", "readOnly": true}}),
        json!({"nfs": {"server": "filer", "path": "/export"}}),
        json!({"csi": {"driver": "inline.example"}}),
        json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}),
        json!({"image": {"reference": "registry.example/data:1"}}),
        json!({"iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.x", "lun": 0}}),
    ];
    let source = if odds.hit(dice) { dice.pick(&other) } else { dice.pick(&usual) };
    let mut volume = json!({"name": format!("v{index}")});
    if let (Some(all), Some(fields)) = (volume.as_object_mut(), source.as_object()) {
        all.extend(fields.clone());
    }
    volume
}

/// The claim that pods name, its volume and driver; sometimes a part of them.
fn storage(dice: &mut Dice) -> Vec<Value> {
    let modes = dice.pick(&[json!(["ReadWriteOnce"]), json!(["ReadWriteMany"]), json!(["ReadWriteOncePod"])]);
    let source = dice.pick(&[
        json!({"csi": {"driver": "disk.example", "volumeHandle": "h1"}}),
        json!({"nfs": {"server": "filer", "path": "/export"}}),
        json!({"hostPath": {"path": "/srv/data"}}),
    ]);
    let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-data"},
        "spec": {"accessModes": modes, "capacity": {"storage": "1Gi"}, "claimRef": {"namespace": "default", "name": "data"}}});
    if let (Some(Value::Object(spec)), Value::Object(source)) = (volume.pointer_mut("/spec"), source) {
        spec.extend(source);
    }
    let objects = [
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
            "spec": {"accessModes": modes, "volumeName": "pv-data", "resources": {"requests": {"storage": "1Gi"}}}}),
        volume,
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "disk.example"},
            "spec": {"seLinuxMount": dice.coin()}}),
        json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "plain"}, "handler": "plain"}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "green"}}),
    ];
    objects.into_iter().filter(|_| dice.below(4) > 0).collect()
}

/// A mistake as people make them.
fn spoil(dice: &mut Dice, object: &mut Value) {
    let spec = if object["kind"] == "Pod" { "/spec" } else { "/spec/template/spec" };
    let first = format!("{spec}/containers/0");
    match dice.below(12) {
        0 => put(object, spec, "hostUser", json!(false)),
        1 => put(object, spec, "hostUsers", json!("false")),
        2 => put(object, spec, "containers", json!([])),
        3 => put(object, &first, "name", json!("Not A Name")),
        4 => put(object, &first, "image", Value::Null),
        5 => put(object, &first, "imagePolicy", json!("Never")),
        6 => put(object, &first, "resources", json!({"limits": {"memory": "1 Mega"}})),
        7 => put(object, &first, "volumeMounts", json!([{"name": "missing", "mountPath": "/x"}])),
        8 => put(object, "/metadata", "name", Value::Null),
        9 => put(object, "", "apiVersion", json!("v2")),
        10 => put(object, "", "kind", json!("Pood")),
        _ => put(object, spec, "securityContext", json!({"runAsUser": -1, "seLinuxOptions": {"lvl": "s0"}})),
    }
}

/// Sets a field of the object at `pointer`, if there is one.
fn put(object: &mut Value, pointer: &str, name: &str, value: Value) {
    if let Some(Value::Object(fields)) = object.pointer_mut(pointer) {
        fields.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_writes_the_same_manifests_and_another_seed_others() {
        let texts = |seed| {
            let mut dice = Dice::seeded(seed);
            (0..50).map(|number| manifest(&mut dice, number)).collect::<Vec<_>>()
        };
        assert_eq!(texts(1), texts(1));
        assert_ne!(texts(1), texts(2));
    }
}
