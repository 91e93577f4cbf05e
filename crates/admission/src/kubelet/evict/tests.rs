use serde_json::{Value, json};

use super::*;

const MI: u64 = 1 << 20;

fn pod(name: &str, spec: &Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

/// A pod of one container.
fn requesting(name: &str, priority: i32, requests: &Value) -> Pod {
    let container = json!({"name": "app", "resources": {"requests": requests}});
    pod(name, &json!({"priority": priority, "containers": [container]}))
}

fn disk(bytes: u64, inodes: u64) -> DiskUse {
    DiskUse { bytes, inodes, at_least: false }
}

fn container(layer: u64, logs: u64) -> ContainerUse {
    ContainerUse {
        name: "app".to_owned(),
        memory: Some(0),
        layer: Some(disk(layer, 1)),
        logs: Some(disk(logs, 2)),
    }
}

/// The names in the order in which they are ended.
fn order(pods: &[(Pod, Option<PodUse>)], starved: Starved, parts: DiskParts) -> Vec<String> {
    let candidates: Vec<Candidate<'_>> =
        pods.iter().map(|(pod, used)| Candidate { pod, used: used.as_ref() }).collect();
    let places = rank(&candidates, starved, parts);
    places.into_iter().map(|place| pods[place].0.metadata.name.clone().unwrap()).collect()
}

#[test]
fn pods_beyond_their_requests_are_ended_first_then_by_priority_then_by_how_much() {
    let memory = |bytes: u64| Some(PodUse { memory: bytes, ..PodUse::default() });
    let asks = json!({"memory": "100Mi"});
    let pods = [
        (requesting("within", 0, &asks), memory(100 * MI)),
        (requesting("important", 1000, &asks), memory(900 * MI)),
        (requesting("little", 0, &asks), memory(101 * MI)),
        (requesting("much", 0, &asks), memory(300 * MI)),
        (requesting("none", 0, &json!({})), memory(250 * MI)),
        (requesting("unknown", 9, &asks), None),
        (requesting("low", -5, &asks), memory(120 * MI)),
        (requesting("idle", -9, &asks), memory(1)),
    ];
    let expected = ["unknown", "low", "none", "much", "little", "important", "idle", "within"];
    assert_eq!(order(&pods, Starved::Memory, DiskParts::All), expected);
}

#[test]
fn process_ids_are_taken_from_the_lowest_priority_and_the_most_processes() {
    let processes = |processes: u64| Some(PodUse { processes, ..PodUse::default() });
    let plain = |name: &str, priority: i32| requesting(name, priority, &json!({"memory": "1Gi"}));
    let pods = [
        (plain("few", 0), processes(2)),
        (plain("many", 0), processes(900)),
        (plain("unknown", 0), None),
        (plain("important", 10), processes(5000)),
        (plain("least", -1), processes(1)),
    ];
    let expected = ["least", "unknown", "many", "few", "important"];
    assert_eq!(order(&pods, Starved::Pids, DiskParts::All), expected);
}

#[test]
fn only_what_is_on_the_disk_that_runs_short_counts() {
    let volume =
        |bytes: u64, inodes: u64| VolumeUse { used: disk(bytes, inodes), is_ephemeral_storage: true };
    let used = |layer: u64, logs: u64, volumes: u64| {
        let mut used = PodUse { containers: vec![container(layer, logs)], ..PodUse::default() };
        used.volumes.insert("v".to_owned(), volume(volumes, 1000 - volumes));
        // In memory: it takes no disk.
        let in_memory = VolumeUse { used: disk(1 << 40, 1 << 30), is_ephemeral_storage: false };
        used.volumes.insert("m".to_owned(), in_memory);
        Some(used)
    };
    let asks = json!({"ephemeral-storage": "50"});
    let pods = [
        (requesting("layer", 0, &json!({})), used(500, 0, 0)),
        (requesting("volume", 0, &asks), used(0, 10, 600)),
        (requesting("logs", 0, &json!({})), used(0, 300, 0)),
        (requesting("small", 0, &asks), used(40, 5, 5)),
    ];
    let names = |starved, parts| order(&pods, starved, parts).join(" ");
    assert_eq!(names(Starved::EphemeralStorage, DiskParts::All), "volume layer logs small");
    assert_eq!(names(Starved::EphemeralStorage, DiskParts::LogsAndVolumes), "volume logs layer small");
    assert_eq!(names(Starved::EphemeralStorage, DiskParts::Layers), "layer logs small volume");
    assert_eq!(names(Starved::EphemeralStorage, DiskParts::None), "layer logs volume small");
    assert_eq!(names(Starved::Inodes, DiskParts::All), "layer logs small volume");
}

/// A container without a writable layer in the runtime's answer counted as one that had written nothing.
#[test]
fn a_container_of_which_it_is_not_known_what_it_has_written_has_not_written_nothing() {
    let asks = json!({"ephemeral-storage": "50"});
    let used = |layer: Option<u64>, logs: Option<u64>| {
        let of = |bytes: Option<u64>| bytes.map(|bytes| disk(bytes, 0));
        let container =
            ContainerUse { name: "app".to_owned(), memory: Some(0), layer: of(layer), logs: of(logs) };
        Some(PodUse { containers: vec![container], ..PodUse::default() })
    };
    let pods = [
        (requesting("within", -1, &asks), used(Some(40), Some(10))),
        (requesting("no-layer", 0, &asks), used(None, Some(1))),
        (requesting("beyond", 5, &asks), used(Some(60), Some(1))),
        (requesting("no-logs", 0, &asks), used(Some(20), None)),
        // What is known is enough.
        (requesting("logs", 5, &asks), used(None, Some(70))),
    ];
    let names = |parts| order(&pods, Starved::EphemeralStorage, parts).join(" ");
    assert_eq!(names(DiskParts::All), "logs beyond no-logs no-layer within");
    assert_eq!(names(DiskParts::Layers), "beyond no-layer logs within no-logs");
    assert_eq!(names(DiskParts::LogsAndVolumes), "logs no-logs within no-layer beyond");
}

#[test]
fn a_message_names_the_threshold_and_each_container_beyond_its_request() {
    let spec = json!({
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
        "containers": [
            {"name": "app", "resources": {"requests": {"memory": "64Mi", "ephemeral-storage": "1Mi"}}},
            {"name": "calm", "resources": {"requests": {"memory": "64Mi"}}},
        ],
    });
    let pod = pod("web", &spec);
    let of = |name: &str, memory: u64| ContainerUse {
        name: name.to_owned(),
        memory: Some(memory),
        ..ContainerUse::default()
    };
    let containers = vec![of("app", 65 * MI), of("calm", 64 * MI), of("side", 1500), of("debug", MI)];
    let used = PodUse { memory: 130 * MI, containers, ..PodUse::default() };
    let candidate = Candidate { pod: &pod, used: Some(&used) };
    let met = Some(Amounts { threshold: 100 * MI, available: 90 * MI + 4096 });
    let found = message(&candidate, Starved::Memory, met);
    assert_eq!(
        found.message,
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 92164Ki. \
         Container app was using 65Mi, request is 64Mi, has larger consumption of memory. \
         Container side was using 1500, request is 0, has larger consumption of memory. "
    );
    let expected = [
        ("offending_containers", "app,side"),
        ("offending_containers_usage", "65Mi,1500"),
        ("starved_resource", "memory"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(found.annotations, expected.into());

    let mut used = PodUse { containers: vec![container(MI, MI)], ..PodUse::default() };
    let on_disk = |used: &PodUse| {
        let candidate = Candidate { pod: &pod, used: Some(used) };
        message(&candidate, Starved::EphemeralStorage, None).message
    };
    assert_eq!(
        on_disk(&used),
        "The node was low on resource: ephemeral-storage. Container app was using 2Mi, request is 1Mi, has larger \
         consumption of ephemeral-storage. "
    );
    // What is not known is not compared.
    used.containers[0].layer = None;
    assert_eq!(on_disk(&used), "The node was low on resource: ephemeral-storage. ");
    let pids = message(&candidate, Starved::Pids, Some(Amounts { threshold: 1000, available: 30 }));
    assert_eq!(pids.message, "The node was low on resource: pids. Threshold quantity: 1k, available: 30. ");
    let unknown = message(&Candidate { pod: &pod, used: None }, Starved::Inodes, None);
    assert_eq!(unknown.message, "The node was low on resource: inodes. ");
    assert!(unknown.annotations.is_empty());
}

#[test]
fn a_pod_with_a_request_of_its_own_is_named_too() {
    let pod = pod("web", &json!({"containers": [], "resources": {"requests": {"memory": "10Mi"}}}));
    let used = PodUse { memory: 20 * MI, ..PodUse::default() };
    let found = message(&Candidate { pod: &pod, used: Some(&used) }, Starved::Memory, None);
    assert_eq!(
        found.message,
        "The node was low on resource: memory. Pod web was using 20Mi, request is 10Mi, has larger consumption of memory. "
    );
    assert_eq!(found.annotations["offending_pod"], "web");
    assert_eq!(found.annotations["offending_pod_usage"], "20Mi");
}

/// One limit of each kind.
fn limited() -> Pod {
    let limits = |amount: &str| json!({"limits": {"ephemeral-storage": amount}});
    pod(
        "web",
        &json!({
            "containers": [
                {"name": "app", "resources": limits("10Mi")}, {"name": "other", "resources": limits("20Mi")},
                {"name": "free"},
            ],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "5Mi"}}, {"name": "w", "emptyDir": {"sizeLimit": "0"}},
                {"name": "x", "emptyDir": {}}],
        }),
    )
}

#[test]
fn each_limit_of_local_storage_has_its_signal_and_message() {
    let pod = limited();
    assert!(has_storage_limits(&pod));
    let volume = |bytes: u64| VolumeUse { used: disk(bytes, 1), is_ephemeral_storage: true };
    let used = |layer: u64, logs: u64, volumes: &[(&str, u64)]| PodUse {
        containers: vec![container(layer, logs)],
        volumes: volumes.iter().map(|(name, bytes)| ((*name).to_owned(), volume(*bytes))).collect(),
        ..PodUse::default()
    };
    let of = |used: &PodUse, parts| exceeded_limit(&pod, used, parts).map(|one| (one.signal, one.message));
    let is = |signal, message: &str| Some((signal, message.to_owned()));
    let within = used(5 * MI, 5 * MI, &[("v", 5 * MI), ("w", MI), ("x", MI)]);
    assert_eq!(of(&within, DiskParts::All), None);
    assert_eq!(
        of(&used(0, 0, &[("v", 5 * MI + 1)]), DiskParts::All),
        is("emptydirfs.limit", "Usage of EmptyDir volume \"v\" exceeds the limit \"5Mi\". ")
    );
    assert_eq!(
        of(&used(5 * MI, 5 * MI, &[("x", 20 * MI + 1)]), DiskParts::All),
        is(
            "ephemeralpodfs.limit",
            "Pod ephemeral local storage usage exceeds the total limit of containers 30Mi. "
        )
    );
    let layer = used(9 * MI, 2 * MI, &[]);
    assert_eq!(
        of(&layer, DiskParts::All),
        is(
            "ephemeralcontainerfs.limit",
            "Container app exceeded its local ephemeral storage limit \"10Mi\". "
        )
    );
    assert_eq!(of(&layer, DiskParts::LogsAndVolumes), None, "its layer is on the disk of images");
    // Another file that the node keeps counts for the pod.
    let files = PodUse { files: disk(31 * MI, 1), ..used(0, 0, &[]) };
    assert_eq!(of(&files, DiskParts::All).unwrap().0, "ephemeralpodfs.limit");
}

/// A pod hid what it wrote where it could not be counted.
#[test]
fn what_cannot_be_counted_exceeds_a_limit() {
    let mut used = PodUse::default();
    let hidden = DiskUse { bytes: 1, inodes: 1, at_least: true };
    used.volumes.insert("v".to_owned(), VolumeUse { used: hidden, is_ephemeral_storage: true });
    assert_eq!(exceeded_limit(&limited(), &used, DiskParts::All).unwrap().signal, "emptydirfs.limit");
    used.volumes = [("w".to_owned(), VolumeUse { used: hidden, is_ephemeral_storage: true })].into();
    assert_eq!(exceeded_limit(&limited(), &used, DiskParts::All).unwrap().signal, "ephemeralpodfs.limit");
    let free =
        pod("web", &json!({"containers": [{"name": "app"}], "volumes": [{"name": "v", "emptyDir": {}}]}));
    assert!(!has_storage_limits(&free) && exceeded_limit(&free, &used, DiskParts::All).is_none());
}
