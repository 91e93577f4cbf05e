use ids::witness::Hold;

use super::*;
use crate::owner::{Home, OwnerKind, Via};

const BLOCK: u64 = 65_536;

fn span(first: u64, length: u64) -> HostSpan {
    HostSpan::new(first, length).unwrap()
}

fn block(number: u64) -> HostSpan {
    span(number * BLOCK, BLOCK)
}

fn owner(name: &str, kind: OwnerKind, ids: HostSpan) -> Owner {
    let hold = match kind {
        OwnerKind::Process { .. } | OwnerKind::UserNamespace { .. } => Hold::Live,
        _ => Hold::Claimed,
    };
    let (uids, gids) = match kind {
        OwnerKind::Subuid { .. } => (vec![ids], vec![]),
        OwnerKind::Subgid { .. } | OwnerKind::Group { .. } => (vec![], vec![ids]),
        _ => (vec![ids], vec![ids]),
    };
    Owner { kind, name: name.into(), hold, uids, gids }
}

fn namespace(inode: u64, ids: HostSpan) -> Owner {
    nested_in(None, inode, ids)
}

fn nested_in(enclosing: Option<u64>, inode: u64, ids: HostSpan) -> Owner {
    let pid = u32::try_from(inode).unwrap();
    let kind = OwnerKind::UserNamespace { inode: Some(inode), pids: vec![pid], via: Via::Task, enclosing };
    owner(&format!("namespace {inode}"), kind, ids)
}

fn process(home: Home, id: u64) -> Owner {
    let kind = OwnerKind::Process { pid: 9, comm: "x".into(), home, roles: vec![] };
    owner("process 9", kind, span(id, 1))
}

fn record(pod: &str, ids: HostSpan) -> Owner {
    let kind = OwnerKind::KubeletRecord { pod: pod.into(), reaches_last_id: false };
    owner(&format!("record {pod}"), kind, ids)
}

fn subuid(whose: &str, ids: HostSpan) -> Owner {
    owner(&format!("subuid {whose}"), OwnerKind::Subuid { owner: whose.into(), line: 1 }, ids)
}

fn subgid(whose: &str, ids: HostSpan) -> Owner {
    owner(&format!("subgid {whose}"), OwnerKind::Subgid { owner: whose.into(), line: 1 }, ids)
}

fn lease(holder: &str, ids: HostSpan) -> LeaseClaim {
    LeaseClaim {
        holder: holder.into(),
        state: "leased".into(),
        uids: ids,
        gids: ids,
        live: true,
        shared: false,
    }
}

fn judged(owners: Vec<Owner>, leases: &[LeaseClaim]) -> Audit {
    audit(&Report { owners, ..Report::default() }, leases)
}

/// What was found among user IDs, and between which parties.
fn violations(owners: Vec<Owner>, leases: &[LeaseClaim]) -> Vec<(What, String)> {
    let found = judged(owners, leases).findings;
    let uids = found.into_iter().filter(|f| f.severity == Severity::Violation && f.kind == IdKind::Uid);
    uids.map(|f| (f.what, f.between.join(" + "))).collect()
}

fn overlap(between: &str) -> Vec<(What, String)> {
    vec![(What::Overlap, between.to_owned())]
}

#[test]
fn pods_in_their_own_leases_hold() {
    let owners = vec![namespace(1, block(2)), process(Home::Inode(1), 2 * BLOCK), namespace(2, block(3))];
    let audit = judged(owners, &[lease("a", block(2)), lease("b", block(3))]);
    assert!(audit.holds(), "{:?}", audit.findings);
}

#[test]
fn a_blind_spot_leaves_the_answer_open() {
    let report = Report { blind: vec!["process 7".into()], ..Report::default() };
    assert_eq!(audit(&report, &[]).verdict(), Verdict::Unknown);
}

#[test]
fn two_namespaces_with_the_same_ids_are_a_violation_unless_one_is_nested_in_the_other() {
    let claims =
        || vec![subuid("a", span(2 * BLOCK, BLOCK / 2)), subuid("a", span(2 * BLOCK + BLOCK / 2, BLOCK / 2))];
    let siblings = [claims(), vec![namespace(1, block(2)), namespace(2, block(2))]].concat();
    assert_eq!(violations(siblings, &[]), overlap("namespace 1 + namespace 2"));
    let nested = [claims(), vec![namespace(1, block(2)), nested_in(Some(1), 2, span(2 * BLOCK, 9))]].concat();
    assert_eq!(violations(nested, &[]), []);
    let deep = vec![namespace(1, block(2)), nested_in(Some(1), 2, block(2)), nested_in(Some(2), 3, block(2))];
    assert_eq!(violations([claims(), deep].concat(), &[]), []);
}

#[test]
fn namespaces_inside_one_claim_may_share_their_ids() {
    let pair = || vec![namespace(1, block(2)), namespace(2, span(2 * BLOCK + 5, 7))];
    assert_eq!(violations(pair(), &[lease("a", block(2))]), []);
    assert_eq!(violations([pair(), vec![subuid("docker", span(BLOCK, 4 * BLOCK))]].concat(), &[]), []);
    assert_eq!(violations([pair(), vec![record("p", block(2))]].concat(), &[]), []);
}

#[test]
fn a_namespace_that_reaches_out_of_a_lease_or_a_record_is_a_violation() {
    let wide = span(2 * BLOCK, 2 * BLOCK);
    let found = violations(vec![namespace(1, wide)], &[lease("a", block(2)), lease("b", block(3))]);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|(what, _)| *what == What::Overlap));
    let found = violations(vec![namespace(1, wide), record("p", block(2)), record("q", block(3))], &[]);
    assert_eq!(found.len(), 2);
}

#[test]
fn a_lease_in_somebody_elses_subordinate_ids_is_a_violation_in_its_own_id_space_only() {
    let audit = judged(vec![subgid("alice", span(100_000, BLOCK))], &[lease("a", block(2))]);
    assert_eq!(audit.findings.len(), 1);
    assert_eq!(
        (audit.findings[0].kind, audit.findings[0].ids),
        (IdKind::Gid, span(2 * BLOCK, 100_000 - BLOCK))
    );
    assert_eq!(audit.verdict(), Verdict::Violated);
}

#[test]
fn the_record_of_the_same_pod_agrees_with_its_lease_and_any_other_does_not() {
    assert_eq!(violations(vec![record("a", block(2))], &[lease("a", block(2))]), []);
    let other = violations(vec![record("b", block(2))], &[lease("a", block(2))]);
    assert_eq!(other, overlap("lease of a (leased) + record b"));
    let longer = violations(vec![record("a", span(2 * BLOCK, 2 * BLOCK))], &[lease("a", block(2))]);
    assert_eq!(longer, overlap("lease of a (leased) + record a"));
}

#[test]
fn records_of_two_pods_with_the_same_ids_are_a_violation() {
    let found = violations(vec![record("a", block(2)), record("b", block(2))], &[]);
    assert_eq!(found, overlap("record a + record b"));
}

#[test]
fn an_account_inside_a_lease_or_a_record_is_a_violation() {
    let user = || owner("user u", OwnerKind::Passwd { user: "u".into() }, span(2 * BLOCK + 1, 1));
    assert_eq!(violations(vec![user()], &[lease("a", block(2))]), overlap("lease of a (leased) + user u"));
    assert_eq!(violations(vec![user(), record("p", block(2))], &[]), overlap("user u + record p"));
}

#[test]
fn a_lease_over_another_tools_store_is_a_violation_unless_the_store_is_of_the_same_pod() {
    let of = |pod: Option<&str>| {
        let kind = OwnerKind::Podman { container: "c".into(), pod: pod.map(Into::into) };
        vec![owner("container c", kind, block(2))]
    };
    let incus = owner("instance i", OwnerKind::Incus { instance: "i".into() }, block(2));
    assert_eq!(violations(of(None), &[lease("a", block(2))]), overlap("lease of a (leased) + container c"));
    assert_eq!(violations(vec![incus], &[lease("a", block(2))]), overlap("lease of a (leased) + instance i"));
    assert_eq!(violations(of(Some("a")), &[lease("a", block(2))]), []);
}

#[test]
fn subordinate_ids_of_two_owners_must_not_overlap() {
    let found = violations(vec![subuid("a", block(2)), subuid("b", span(2 * BLOCK, 9))], &[]);
    assert_eq!(found, overlap("subuid a + subuid b"));
    assert_eq!(violations(vec![subuid("a", block(2)), subuid("a", block(2))], &[]), []);
}

#[test]
fn a_process_in_a_block_that_its_namespace_does_not_map_is_foreign() {
    let leased = [lease("a", block(2))];
    let foreign = vec![(What::ForeignProcess, "lease of a (leased) + process 9".to_owned())];
    assert_eq!(violations(vec![process(Home::Host, 2 * BLOCK)], &leased), foreign);
    let elsewhere = vec![namespace(1, span(2 * BLOCK + 9, 9)), process(Home::Inode(1), 2 * BLOCK)];
    assert_eq!(violations(elsewhere, &leased), foreign);
    let recorded = violations(vec![process(Home::Host, 2 * BLOCK), record("p", block(2))], &[]);
    assert_eq!(recorded, [(What::ForeignProcess, "process 9 + record p".to_owned())]);
}

#[test]
fn ids_in_use_that_nobody_claims_are_leaks() {
    let found = judged(vec![namespace(1, span(2 * BLOCK, 2 * BLOCK)), subuid("a", block(3))], &[]).findings;
    let uid: Vec<_> = found.iter().filter(|f| f.kind == IdKind::Uid).collect();
    assert_eq!((uid[0].what, uid[0].ids), (What::Leak, block(2)));
    assert_eq!(uid.len(), 1);
    let alone = violations(vec![process(Home::Host, 70_000)], &[]);
    assert_eq!(alone, [(What::Leak, "process 9".to_owned())]);
    let with_its_namespace =
        violations(vec![namespace(1, block(2)), process(Home::Inode(1), 2 * BLOCK)], &[]);
    assert_eq!(with_its_namespace, [(What::Leak, "namespace 1".to_owned())]);
}

#[test]
fn a_lease_that_is_no_longer_live_claims_nothing() {
    let mut quarantined = lease("a", block(2));
    quarantined.live = false;
    assert_eq!(
        violations(vec![namespace(1, block(2))], &[quarantined]),
        [(What::Leak, "namespace 1".to_owned())]
    );
}

#[test]
fn host_ids_in_a_record_or_in_subordinate_ids_are_violations() {
    let found = violations(vec![record("p", span(0, BLOCK))], &[]);
    assert_eq!(found, [(What::HostIds, "record p".to_owned())]);
    let found = violations(vec![subuid("a", span(1000, 100_000))], &[]);
    assert_eq!(found, [(What::HostIds, "subuid a".to_owned())]);
    assert_eq!(violations(vec![subuid("root", span(1000, 1))], &[]), []);
    let kind = OwnerKind::KubeletRecord { pod: "z".into(), reaches_last_id: true };
    let last = owner("record z", kind, span(4_294_901_760, BLOCK - 1));
    assert_eq!(violations(vec![last], &[]), [(What::HostIds, "record z".to_owned())]);
}

#[test]
fn maps_of_host_ids_by_rootless_tools_and_services_are_no_violation() {
    let owners = vec![namespace(1, span(1000, 1)), namespace(2, span(1000, 1)), namespace(3, span(0, BLOCK))];
    assert!(judged(owners, &[]).holds());
}

#[test]
fn a_record_that_nobody_uses_is_a_note() {
    let audit = judged(vec![record("p", block(2))], &[]);
    assert_eq!(audit.findings.len(), 1);
    assert_eq!((audit.findings[0].what, audit.findings[0].severity), (What::UnusedRecord, Severity::Note));
    assert!(audit.holds());
    let used = judged(vec![record("p", block(2)), namespace(1, block(2))], &[]);
    assert!(used.findings.is_empty());
}

#[test]
fn leases_overlap_only_as_one_shared_block() {
    let mut shared = lease("a", block(2));
    shared.shared = true;
    let joined = LeaseClaim { holder: "b".into(), ..shared.clone() };
    assert_eq!(violations(vec![], &[shared.clone(), joined]), []);
    assert_eq!(violations(vec![], &[shared, lease("c", block(2))]).len(), 1);
}
