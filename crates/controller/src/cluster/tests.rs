//! The same objects give the same answers in whatever order they come, and however often they are listed.

use std::collections::BTreeSet;

use conflicts::{Property, Says};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// An object of any watched resource.
#[derive(Debug, Clone)]
enum Object {
    Pod(Value),
    Claim(Value),
    Volume(Value),
    Driver(Value),
    Node(Value),
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

impl Object {
    fn watched(&self) -> Watched {
        match self {
            Self::Pod(_) => Watched::Pods,
            Self::Claim(_) => Watched::Claims,
            Self::Volume(_) => Watched::Volumes,
            Self::Driver(_) => Watched::Drivers,
            Self::Node(_) => Watched::Nodes,
        }
    }

    fn value(&self) -> &Value {
        let (Self::Pod(value)
        | Self::Claim(value)
        | Self::Volume(value)
        | Self::Driver(value)
        | Self::Node(value)) = self;
        value
    }

    /// Objects of one name are one object.
    fn id(&self) -> (Watched, String) {
        let metadata = &self.value()["metadata"];
        (self.watched(), format!("{}/{}", metadata["namespace"], metadata["name"]))
    }

    fn put(&self, cluster: &mut Cluster) {
        match self {
            Self::Pod(value) => cluster.put_pod(&read(value)),
            Self::Claim(value) => cluster.put_claim(&read(value)),
            Self::Volume(value) => cluster.put_volume(&read(value)),
            Self::Driver(value) => cluster.put_driver(&read(value)),
            Self::Node(value) => cluster.put_node(&read(value)),
        }
    }

    fn remove(&self, cluster: &mut Cluster) {
        match self {
            Self::Pod(value) => cluster.remove_pod(&read(value)),
            Self::Claim(value) => cluster.remove_claim(&read(value)),
            Self::Volume(value) => cluster.remove_volume(&read(value)),
            Self::Driver(value) => cluster.remove_driver(&read(value)),
            Self::Node(value) => cluster.remove_node(&read(value)),
        }
    }
}

const NAMESPACES: [&str; 2] = ["shop", "bank"];
const LEVELS: [Option<&str>; 3] = [None, Some("s0:c1,c2"), Some("s0:c8,c9")];

fn pod(namespace: &str, name: &str, uid: usize, spec: &Value) -> Object {
    Object::Pod(pod_in(namespace, name, uid, spec, "Running"))
}

fn pod_in(namespace: &str, name: &str, uid: usize, spec: &Value, phase: &str) -> Value {
    let metadata = json!({"namespace": namespace, "name": name, "uid": format!("u{uid}")});
    json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}})
}

fn spec(levels: [Option<&str>; 2], policy: Option<&str>, privileged: bool) -> Value {
    let options = |level: Option<&str>| level.map(|level| json!({"level": level}));
    let mounts = json!([{"name": "data", "mountPath": "/data"}]);
    let container = |(index, level): (usize, Option<&str>)| {
        let security = json!({"seLinuxOptions": options(level), "privileged": privileged});
        json!({"name": format!("c{index}"), "securityContext": security, "volumeMounts": mounts})
    };
    let containers: Vec<Value> = levels.into_iter().enumerate().map(container).collect();
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    json!({"hostUsers": !privileged, "securityContext": {"seLinuxChangePolicy": policy},
        "containers": containers, "volumes": volumes})
}

fn any_pod() -> impl Strategy<Value = Object> {
    let names = (0..2_usize, 0..4_usize, 0..3_usize);
    let asks = (0..3_usize, 0..3_usize, 0..4_usize, any::<bool>(), 0..10_usize);
    (names, asks).prop_map(|((namespace, name, uid), (one, other, policy, privileged, phase))| {
        let policy = [None, None, Some("MountOption"), Some("Recursive")][policy];
        let levels = if other == 0 { [LEVELS[one], LEVELS[1]] } else { [LEVELS[one]; 2] };
        let phase = if phase == 0 { "Succeeded" } else { "Running" };
        let spec = spec(levels, policy, privileged);
        Object::Pod(pod_in(NAMESPACES[namespace], &format!("p{name}"), uid, &spec, phase))
    })
}

fn any_claim() -> impl Strategy<Value = Object> {
    (0..2_usize, 0..3_usize).prop_map(|(namespace, volume)| {
        let volume = [None, Some("pv0"), Some("pv1")][volume];
        let metadata = json!({"namespace": NAMESPACES[namespace], "name": "data"});
        Object::Claim(json!({"metadata": metadata, "spec": {"volumeName": volume}}))
    })
}

fn any_volume() -> impl Strategy<Value = Object> {
    (0..2_usize, 0..2_usize, any::<bool>()).prop_map(|(name, handle, once)| {
        let modes = if once { json!(["ReadWriteOncePod"]) } else { json!(["ReadWriteMany"]) };
        let csi = json!({"driver": "csi.example.com", "volumeHandle": format!("h{handle}")});
        let metadata = json!({"name": format!("pv{name}")});
        Object::Volume(json!({"metadata": metadata, "spec": {"accessModes": modes, "csi": csi}}))
    })
}

fn any_object() -> impl Strategy<Value = Object> {
    let driver = any::<bool>().prop_map(|mounts| {
        Object::Driver(json!({"metadata": {"name": "csi.example.com"}, "spec": {"seLinuxMount": mounts}}))
    });
    let node = (0..2_usize, any::<bool>()).prop_map(|(name, able)| {
        let handlers = json!([{"name": "", "features": {"userNamespaces": able}}]);
        let metadata = json!({"name": format!("n{name}")});
        Object::Node(json!({"metadata": metadata, "status": {"runtimeHandlers": handlers}}))
    });
    prop_oneof![6 => any_pod(), 2 => any_claim(), 2 => any_volume(), 1 => driver, 1 => node]
}

fn cluster() -> Cluster {
    Cluster::new(Rules::default(), Details::Kept)
}

/// All that can be observed of a cluster.
fn observed(cluster: &Cluster) -> (BTreeSet<String>, Summary, Totals, BTreeSet<String>) {
    let engine = cluster.engine();
    let record = |c: conflicts::Conflict<'_>| {
        format!("{} {} {} {} {}", c.property, c.a.pod, c.a.value, c.b.pod, c.b.value)
    };
    let records = engine.records().map(record).collect();
    let mut events = BTreeSet::new();
    for (volume, _) in engine.contested() {
        for (property, users) in engine.in_conflict(volume) {
            let of = |pod| engine.event_for(pod, volume, property).unwrap();
            events.extend(
                users.pods().map(of).map(|event| format!("{} {:?} {}", event.pod, event.uid, event.message)),
            );
        }
    }
    (records, cluster.summary(), cluster.totals(), events)
}

/// The last object of each name, in the order in which they came.
fn last_of_each(history: &[Object]) -> Vec<Object> {
    let mut seen = BTreeSet::new();
    let mut last: Vec<Object> =
        history.iter().rev().filter(|object| seen.insert(object.id())).cloned().collect();
    last.reverse();
    last
}

fn fed(objects: &[Object]) -> Cluster {
    let mut cluster = cluster();
    for object in objects {
        object.put(&mut cluster);
    }
    cluster
}

/// The same numbers from every pair.
fn counted(cluster: &Cluster) -> Summary {
    let engine = cluster.engine();
    let of = |property| engine.conflicts().filter(move |c| c.property == property).count();
    let meets = |c: &conflicts::Conflict<'_>| !matches!(c.meeting(), conflicts::Meeting::CannotMeet(_));
    let volumes: BTreeSet<_> = engine.conflicts().map(|c| c.volume.clone()).collect();
    let meeting: BTreeSet<_> = engine.conflicts().filter(meets).map(|c| c.volume.clone()).collect();
    let pods: BTreeSet<_> = engine.conflicts().flat_map(|c| [c.a.pod.clone(), c.b.pod.clone()]).collect();
    let several = engine.remarks().filter(|r| matches!(r.says, Says::MultipleLabels { .. }));
    let several: BTreeSet<_> = several.map(|r| r.pod.clone()).collect();
    let count = |number: usize| u64::try_from(number).unwrap();
    Summary {
        policy_conflicts: count(of(Property::SELinuxChangePolicy)),
        label_conflicts: count(of(Property::SELinuxLabel)),
        volumes: count(volumes.len()),
        meeting_volumes: count(meeting.len()),
        pods: count(pods.len()),
        multiple_labels: count(several.len()),
    }
}

proptest! {
    #[test]
    fn objects_in_any_order_give_the_same_answers(
        history in prop::collection::vec(any_object(), 1..40),
        shuffled in any::<prop::sample::Index>(),
    ) {
        // What came before the last object of each name does not matter, nor does the order of the last ones.
        let last = last_of_each(&history);
        let expected = observed(&fed(&history));
        prop_assert_eq!(observed(&fed(&last)), expected.clone());
        let mut turned = last.clone();
        turned.rotate_left(shuffled.index(last.len()));
        prop_assert_eq!(observed(&fed(&turned)), expected.clone());
        turned.reverse();
        prop_assert_eq!(observed(&fed(&turned)), expected.clone());
        let mut by_kind = last.clone();
        by_kind.sort_by_key(Object::id);
        prop_assert_eq!(observed(&fed(&by_kind)), expected.clone());
        prop_assert_eq!(counted(&fed(&history)), expected.1);
    }

    /// Lists repair what was missed, whatever was known before and however often a list fails in its midst.
    #[test]
    fn a_list_leaves_what_it_had_and_nothing_else(
        before in prop::collection::vec(any_object(), 0..25),
        listed in prop::collection::vec(any_object(), 0..25),
        cut in any::<prop::sample::Index>(),
    ) {
        let listed = last_of_each(&listed);
        let mut cluster = fed(&before);
        for watched in Watched::ALL {
            let page: Vec<&Object> = listed.iter().filter(|object| object.watched() == watched).collect();
            cluster.begin(watched);
            page.iter().take(cut.index(page.len() + 1)).for_each(|object| object.put(&mut cluster));
            cluster.begin(watched);
            page.iter().for_each(|object| object.put(&mut cluster));
            cluster.finish(watched);
        }
        prop_assert_eq!(observed(&cluster), observed(&fed(&listed)));
        prop_assert!(cluster.is_settled() && cluster.unread().is_empty());
        let everything: Vec<Object> = before.iter().chain(&listed).cloned().collect();
        for object in last_of_each(&everything) {
            object.remove(&mut cluster);
        }
        prop_assert_eq!(observed(&cluster), observed(&super::tests::cluster()));
        prop_assert!(cluster.engine().is_empty());
    }
}

fn shop() -> Vec<Object> {
    let volume = json!({"metadata": {"name": "pv0"}, "spec": {"accessModes": ["ReadWriteMany"],
        "csi": {"driver": "csi.example.com", "volumeHandle": "h0"}}});
    let claim = json!({"metadata": {"namespace": "shop", "name": "data"}, "spec": {"volumeName": "pv0"}});
    let driver = json!({"metadata": {"name": "csi.example.com"}, "spec": {"seLinuxMount": true}});
    vec![
        Object::Volume(volume),
        Object::Claim(claim),
        Object::Driver(driver),
        pod("shop", "a", 1, &spec([LEVELS[1]; 2], None, false)),
        pod("shop", "b", 2, &spec([LEVELS[2]; 2], None, false)),
    ]
}

#[test]
fn changes_name_the_volumes_and_the_pods_that_are_gone() {
    let mut cluster = fed(&shop());
    assert_eq!(cluster.summary().label_conflicts, 1);
    let changes = cluster.take_changes();
    assert_eq!((changes.volumes.len(), changes.gone.len()), (1, 0));
    assert!(cluster.take_changes().volumes.is_empty());
    shop().pop().unwrap().remove(&mut cluster);
    let changes = cluster.take_changes();
    assert_eq!((changes.volumes.len(), changes.gone), (1, vec![PodKey::new("shop", "b")]));
    cluster.touch_all();
    assert!(cluster.take_changes().volumes.is_empty(), "no volume has conflicts any more");
}

#[test]
fn a_pod_in_the_place_of_one_that_went_unnoticed_has_none_of_its_volumes() {
    let mut cluster = fed(&shop());
    pod("shop", "b", 3, &json!({"containers": [{"name": "c"}]})).put(&mut cluster);
    assert_eq!(cluster.summary(), Summary::default());
}

#[test]
fn a_missing_right_is_new_once_and_keeps_the_rest_from_nothing() {
    let mut cluster = fed(&shop());
    let forbidden = WatchFailure { cause: "no".to_owned(), code: Some(403) };
    let outage = WatchFailure { cause: "gone".to_owned(), code: None };
    for watched in Watched::ALL.into_iter().filter(|watched| *watched != Watched::Nodes) {
        cluster.begin(watched);
        shop()
            .iter()
            .filter(|object| object.watched() == watched)
            .for_each(|object| object.put(&mut cluster));
        cluster.finish(watched);
    }
    cluster.begin(Watched::Nodes);
    assert!(!cluster.failed(Watched::Nodes, &outage) && !cluster.is_ready(), "an outage is no missing right");
    assert!(cluster.failed(Watched::Nodes, &forbidden) && !cluster.failed(Watched::Nodes, &forbidden));
    assert!(cluster.is_ready() && cluster.is_settled());
    assert_eq!(cluster.unread(), [Watched::Nodes]);
    assert_eq!(cluster.summary().label_conflicts, 1);
    cluster.begin(Watched::Nodes);
    cluster.answered(Watched::Nodes);
    assert!(!cluster.is_settled(), "its first list is under way");
    cluster.finish(Watched::Nodes);
    assert!(cluster.unread().is_empty());
    // The right to list alone: each list succeeds, and each watch is refused.
    assert!(!cluster.failed(Watched::Nodes, &forbidden), "it was reported");
    cluster.followed(Watched::Nodes);
    assert!(cluster.unread().is_empty());
    // A right that is taken away later.
    assert!(cluster.failed(Watched::Pods, &forbidden));
    assert_eq!((cluster.unread(), cluster.is_settled()), (vec![Watched::Pods], true));
}
