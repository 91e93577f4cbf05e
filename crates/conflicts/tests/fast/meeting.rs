//! Whether two pods can meet: each rule, and what it must not be concluded from.

use crate::cases;

use cases::*;
use conflicts::AccessMode::*;
use conflicts::*;

fn a() -> Pod {
    labelled("a", "s0:c1,c2")
}

fn b() -> Pod {
    labelled("b", "s0:c8,c9")
}

fn selecting(mut pod: Pod, key: &str, value: &str) -> Pod {
    pod.placement.node_selector.insert(key.to_owned(), value.to_owned());
    pod
}

fn wearing(mut pod: Pod, app: &str) -> Pod {
    pod.placement.labels.insert("app".to_owned(), app.to_owned());
    pod
}

fn requirement(key: &str, operator: Operator) -> Requirement {
    Requirement { key: key.to_owned(), operator }
}

fn one_of(values: &[&str]) -> Operator {
    Operator::In(values.iter().map(|v| (*v).to_owned()).collect())
}

fn term(requirements: Vec<Requirement>) -> NodeTerm {
    NodeTerm { labels: requirements, fields: vec![] }
}

fn to(mut pod: Pod, terms: Vec<NodeTerm>) -> Pod {
    pod.placement.node_terms = Some(terms);
    pod
}

fn away_from(mut pod: Pod, app: &str, topology_key: &str) -> Pod {
    let selector = Some(vec![requirement("app", one_of(&[app]))]);
    let term = AntiAffinity { topology_key: topology_key.to_owned(), selector, namespaces: Namespaces::Own };
    pod.placement.anti_affinity.push(term);
    pod
}

fn meets(a: Pod, b: Pod) -> Meeting {
    meets_on(&[ReadWriteMany], a, b)
}

fn meets_on(modes: &[AccessMode], a: Pod, b: Pod) -> Meeting {
    let there = meeting(&cluster_with(Rules::default(), modes, &[a.clone(), b.clone()]));
    let engine = cluster_with(Rules::default(), modes, &[b, a]);
    assert_eq!(meeting(&engine), there);
    assert_eq!(engine.conflicts().next().map(|c| c.turned().meeting()), Some(there));
    there
}

const SELECTORS: Meeting = Meeting::CannotMeet(Apart::NodeSelector);
const ANTI_AFFINITY: Meeting = Meeting::CannotMeet(Apart::AntiAffinity);
const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

#[test]
fn pods_on_one_node_have_met() {
    assert_eq!(meets(on(a(), "n1"), on(b(), "n1")), Meeting::OnOneNode);
    let pinned = |mut pod: Pod| {
        pod.placement.node = Node::Pinned("n1".to_owned());
        pod
    };
    assert_eq!(meets(pinned(a()), on(b(), "n1")), Meeting::OnOneNode);
}

#[test]
fn different_nodes_are_no_proof() {
    assert_eq!(meets(on(a(), "n1"), on(b(), "n2")), Meeting::MayMeet);
    assert_eq!(meets(on(a(), "n1"), b()), Meeting::MayMeet);
}

#[test]
fn selectors_exclude_each_other_where_one_label_would_need_two_values() {
    assert_eq!(meets(selecting(a(), "zone", "x"), selecting(b(), "zone", "y")), SELECTORS);
    assert_eq!(meets(selecting(a(), "zone", "x"), selecting(b(), "zone", "x")), Meeting::MayMeet);
    assert_eq!(meets(selecting(a(), "zone", "x"), selecting(b(), "disk", "y")), Meeting::MayMeet);
    assert_eq!(meets(selecting(a(), "zone", "x"), b()), Meeting::MayMeet);
}

#[test]
fn a_pod_whose_node_breaks_its_selector_has_met_all_the_same() {
    let a = on(selecting(a(), "zone", "x"), "n1");
    assert_eq!(meets(a, on(selecting(b(), "zone", "y"), "n1")), Meeting::OnOneNode);
}

#[test]
fn affinity_terms_exclude_each_other_only_if_every_pair_does() {
    let zone = |values: &[&str]| term(vec![requirement("zone", one_of(values))]);
    assert_eq!(meets(to(a(), vec![zone(&["x", "y"])]), to(b(), vec![zone(&["z"])])), SELECTORS);
    assert_eq!(meets(to(a(), vec![zone(&["x", "y"])]), to(b(), vec![zone(&["y"])])), Meeting::MayMeet);
    let either = || vec![zone(&["x"]), term(vec![requirement("disk", one_of(&["ssd"]))])];
    assert_eq!(meets(to(a(), either()), to(b(), vec![zone(&["z"])])), Meeting::MayMeet);
    let a = selecting(to(a(), either()), "disk", "ssd");
    assert_eq!(meets(a, selecting(b(), "disk", "hdd")), SELECTORS);
}

#[test]
fn each_operator_is_taken_at_its_word() {
    let pair = |x: Operator, y: Operator| {
        let with = |pod, o| to(pod, vec![term(vec![requirement("k", o)])]);
        meets(with(a(), x), with(b(), y))
    };
    let not = |v: &str| Operator::NotIn([v.to_owned()].into());
    assert_eq!(pair(one_of(&["x"]), not("x")), SELECTORS);
    assert_eq!(pair(one_of(&["x", "y"]), not("x")), Meeting::MayMeet);
    assert_eq!(pair(not("x"), not("y")), Meeting::MayMeet);
    assert_eq!(pair(Operator::Exists, Operator::DoesNotExist), SELECTORS);
    assert_eq!(pair(not("x"), Operator::DoesNotExist), Meeting::MayMeet);
    assert_eq!(pair(Operator::Greater(5), Operator::DoesNotExist), SELECTORS);
    assert_eq!(pair(Operator::Greater(5), Operator::Less(6)), SELECTORS);
    assert_eq!(pair(Operator::Greater(5), Operator::Less(7)), Meeting::MayMeet);
    assert_eq!(pair(Operator::Greater(5), one_of(&["5", "x"])), SELECTORS);
    assert_eq!(pair(Operator::Greater(i64::MAX), Operator::Exists), SELECTORS);
}

#[test]
fn an_empty_term_fits_no_node_and_fields_are_no_labels() {
    assert_eq!(meets(to(a(), vec![NodeTerm::default()]), b()), SELECTORS);
    let name = |pod, node: &str| {
        let fields = vec![requirement("metadata.name", one_of(&[node]))];
        to(pod, vec![NodeTerm { labels: vec![], fields }])
    };
    assert_eq!(meets(name(a(), "n1"), name(b(), "n2")), SELECTORS);
    assert_eq!(meets(name(a(), "n1"), selecting(b(), "metadata.name", "n2")), Meeting::MayMeet);
}

#[test]
fn who_is_not_placed_by_the_default_scheduler_is_kept_apart_by_nothing() {
    let loose: [fn(&mut Placement); 4] = [
        |p| p.owner_kind = Some("DaemonSet".to_owned()),
        |p| p.owner_kind = Some("Node".to_owned()),
        |p| p.scheduler = Some("volcano".to_owned()),
        |p| p.node = Node::Pinned("n1".to_owned()),
    ];
    for change in loose {
        let mut a = away_from(selecting(a(), "zone", "x"), "b", HOSTNAME);
        let b = wearing(selecting(b(), "zone", "y"), "b");
        assert_eq!(meets(a.clone(), b.clone()), SELECTORS);
        change(&mut a.placement);
        assert_eq!(meets(a, b), Meeting::MayMeet);
    }
    let mut replica = selecting(a(), "zone", "x");
    replica.placement.owner_kind = Some("ReplicaSet".to_owned());
    replica.placement.scheduler = Some("default-scheduler".to_owned());
    assert_eq!(meets(replica, selecting(b(), "zone", "y")), SELECTORS);
}

#[test]
fn required_anti_affinity_keeps_apart_whichever_of_the_two_has_it() {
    assert_eq!(meets(away_from(a(), "b", HOSTNAME), wearing(b(), "b")), ANTI_AFFINITY);
    assert_eq!(meets(away_from(a(), "b", HOSTNAME), wearing(b(), "c")), Meeting::MayMeet);
    assert_eq!(meets(away_from(a(), "b", HOSTNAME), b()), Meeting::MayMeet);
}

#[test]
fn other_topologies_keep_apart_only_where_the_node_must_have_the_label() {
    assert_eq!(meets(away_from(a(), "b", ZONE), wearing(b(), "b")), Meeting::MayMeet);
    let must = |pod| to(pod, vec![term(vec![requirement(ZONE, Operator::Exists)])]);
    assert_eq!(meets(must(away_from(a(), "b", ZONE)), wearing(b(), "b")), ANTI_AFFINITY);
    assert_eq!(meets(away_from(a(), "b", ZONE), must(wearing(b(), "b"))), ANTI_AFFINITY);
}

#[test]
fn anti_affinity_minds_namespaces_and_a_missing_selector() {
    let other = || wearing(labelled("bank/b", "s0:c8,c9"), "b");
    let within = |namespaces| {
        let mut pod = away_from(a(), "b", HOSTNAME);
        pod.placement.anti_affinity[0].namespaces = namespaces;
        pod
    };
    assert_eq!(meets(within(Namespaces::Own), other()), Meeting::MayMeet);
    assert_eq!(meets(within(Namespaces::Listed(["bank".to_owned()].into())), other()), ANTI_AFFINITY);
    assert_eq!(meets(within(Namespaces::All), other()), ANTI_AFFINITY);
    let mut nobody = within(Namespaces::All);
    nobody.placement.anti_affinity[0].selector = None;
    assert_eq!(meets(nobody.clone(), other()), Meeting::MayMeet);
    nobody.placement.anti_affinity[0].selector = Some(vec![]);
    assert_eq!(meets(nobody, other()), ANTI_AFFINITY);
}

#[test]
fn a_read_write_once_pod_volume_is_never_had_by_two() {
    let expected = Meeting::CannotMeet(Apart::ReadWriteOncePod);
    assert_eq!(meets_on(&[ReadWriteOncePod], a(), b()), expected);
    assert_eq!(meets_on(&[ReadWriteOncePod], on(a(), "n1"), on(b(), "n1")), expected);
}

#[test]
fn a_read_write_once_volume_brings_its_pods_together_and_keeps_nobody_apart() {
    assert_eq!(meets_on(&[ReadWriteOnce], a(), b()), Meeting::MustMeet);
    assert_eq!(meets_on(&[ReadWriteOnce], on(a(), "n1"), b()), Meeting::MustMeet);
    assert_eq!(meets_on(&[ReadWriteOnce], on(a(), "n1"), on(b(), "n2")), Meeting::MayMeet);
    assert_eq!(meets_on(&[ReadWriteOnce, ReadOnlyMany], a(), b()), Meeting::MayMeet);
}

#[test]
fn the_graver_meeting_is_the_greater() {
    assert!(Meeting::OnOneNode > Meeting::MustMeet);
    assert!(Meeting::MustMeet > Meeting::MayMeet);
    assert!(Meeting::MayMeet > SELECTORS);
    assert_eq!(serde_json::to_string(&SELECTORS).unwrap(), r#"{"cannotMeet":"nodeSelector"}"#);
    assert_eq!(SELECTORS.severity(), "cannotMeet");
}
