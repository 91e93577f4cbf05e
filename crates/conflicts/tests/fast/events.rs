//! One event for all conflicts of a pod on a volume: what it names, and what it hides.

use conflicts::*;

use crate::cases::{self, DRIVER, cluster, labelled, recursive};

const C1: &str = "s0:c1,c2";
const C8: &str = "s0:c8,c9";

fn volume() -> VolumeId {
    VolumeId::csi(DRIVER, "vol-1")
}

fn message(engine: &Engine, pod: &str) -> Option<String> {
    let key = cases::pod(pod).key;
    engine.event_for(&key, &volume(), Property::SELinuxLabel).map(|event| event.message)
}

#[test]
fn one_other_pod_is_named_as_in_the_event_of_the_pair() {
    for other in ["b", "bank/b"] {
        let engine = cluster(&[labelled("a", C1), labelled(other, C8)]);
        for conflict in engine.records() {
            let event = conflict.event();
            assert_eq!(engine.event_for(event.pod, conflict.volume, conflict.property), Some(event));
        }
    }
}

#[test]
fn five_pods_are_named_and_the_others_are_counted() {
    let mut pods: Vec<Pod> = (0..20).map(|n| labelled(&format!("p{n:02}"), C8)).collect();
    pods.push(labelled("a", C1));
    let engine = cluster(&pods);
    assert_eq!(
        message(&engine, "a").unwrap(),
        "SELinuxLabel \":::s0:c1,c2\" conflicts with pod p00 that uses the same volume as this pod with SELinuxLabel \
         \":::s0:c8,c9\", and with pods p01, p02, p03, p04 and 15 more of this namespace: where two of them are on one \
         node, only one of them can have it"
    );
    let engine = cluster(&[labelled("a", C1), labelled("b", C8), labelled("c", C8)]);
    let text = message(&engine, "a").unwrap();
    assert!(text.contains("\":::s0:c8,c9\", and with pod c of this namespace: where two"), "{text}");
}

#[test]
fn nothing_of_another_namespace_is_shown_beside_pods_of_the_own() {
    let foreign: Vec<Pod> = (0..7).map(|n| labelled(&format!("bank/vault{n}"), "s0:c700,c701")).collect();
    let mut pods = vec![labelled("a", C1), labelled("b", C8)];
    pods.extend(foreign);
    let text = message(&cluster(&pods), "a").unwrap();
    assert!(
        text.contains("pod b that uses") && text.contains(", and with pods of other namespaces: "),
        "{text}"
    );
    for hidden in ["bank", "vault", "c700", "7 ", "seven"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    let only_foreign = cluster(&[&pods[..1], &pods[2..]].concat());
    let text = message(&only_foreign, "a").unwrap();
    assert!(text.contains("conflicts with another pod that uses the same volume with another"), "{text}");
    assert!(!text.contains("bank") && !text.contains("vault") && !text.contains("c700"), "{text}");
}

#[test]
fn each_property_has_an_event_of_its_own_and_a_pod_without_conflict_none() {
    let engine = cluster(&[labelled("a", C1), recursive(labelled("b", C1))]);
    let reasons = |pod: &str| {
        let key = cases::pod(pod).key;
        let of = |property| engine.event_for(&key, &volume(), property).map(|event| event.reason);
        Property::ALL.map(of)
    };
    assert_eq!(reasons("a"), [Some("SELinuxChangePolicyConflict"), Some("SELinuxLabelConflict")]);
    assert_eq!(reasons("b"), reasons("a"));
    assert_eq!(reasons("missing"), [None, None]);
    assert_eq!(message(&cluster(&[labelled("a", C1), labelled("b", C1)]), "a"), None);
}

#[test]
fn records_are_bounded_and_the_rest_is_counted() {
    let mut pods: Vec<Pod> = (0..10).map(|n| labelled(&format!("a{n}"), C1)).collect();
    pods.extend((0..10).map(|n| labelled(&format!("b{n}"), C8)));
    let engine = cluster(&pods);
    for (most, records, left) in
        [(0, 0, 100), (1, 0, 100), (2, 2, 99), (51, 50, 75), (200, 200, 0), (500, 200, 0)]
    {
        let (found, rest) = engine.first_records(most);
        assert_eq!((found.len(), rest), (records, left), "at most {most}");
    }
}

#[test]
fn a_change_says_which_volumes_it_concerns() {
    let mut engine = cluster(&[labelled("a", C1)]);
    let effects = engine.put_pod(&labelled("b", C8));
    assert_eq!(effects.volumes().collect::<Vec<_>>(), [&volume()]);
    assert_eq!(engine.put_pod(&labelled("b", C8)).volumes().count(), 0);
    assert_eq!(engine.uid(&cases::pod("b").key), Some("uid-b"));
}
