//! How volumes are presented, by policy and by what their filesystem can.

use crate::fixture;

use fixture::{facts, host_path, only_refusal, pod, rules, with_volume};
use plan::*;

const NFS: &str = "/srv/nfs/data";

fn isolated(source: VolumeSource) -> Intent {
    with_volume(pod(Some(false)), source)
}

fn seen(intent: &Intent, policy: &Policy) -> (UserNamespaceMode, Idmap, Owners) {
    let plan = plan(intent, &facts(), policy).unwrap();
    (plan.user_namespace.mode, plan.mounts[0].idmap, plan.volumes[0].owners)
}

#[test]
fn every_kind_on_a_filesystem_that_can_is_idmapped_to_the_pods_own_block() {
    for source in [
        VolumeSource::ConfigMap,
        VolumeSource::Secret,
        VolumeSource::DownwardApi,
        VolumeSource::Projected,
        VolumeSource::EmptyDir(Medium::Disk),
        VolumeSource::EmptyDir(Medium::Memory),
        VolumeSource::Image,
        host_path("/data"),
        fixture::pv(fixture::csi(None), &[]),
    ] {
        let found = seen(&isolated(source.clone()), &Policy::default());
        assert_eq!(found, (UserNamespaceMode::Own, Idmap::Own, Owners::Idmapped), "{source:?}");
    }
}

#[test]
fn with_the_hosts_users_nothing_is_idmapped() {
    let found = seen(&with_volume(pod(None), host_path(NFS)), &Policy::default());
    assert_eq!(found, (UserNamespaceMode::Host, Idmap::None, Owners::AsOnDisk));
}

#[test]
fn a_filesystem_that_cannot_is_refused_by_name_with_the_ways_out() {
    let refusal = only_refusal(plan(&isolated(host_path(NFS)), &facts(), &Policy::default()));
    assert_eq!(
        refusal.to_string(),
        "spec.volumes[0]: volume \"v\" is on nfs, which cannot be idmapped: mount_setattr: Invalid argument"
    );
    let hint = refusal.hint.unwrap();
    assert!(hint.contains("sharedBlock") && hint.contains("chownOnce"));
}

/// Memory cannot be idmapped before Linux 6.3.
#[test]
fn what_the_node_makes_and_cannot_idmap_is_made_with_the_pods_host_ids() {
    let mut facts = facts();
    facts.filesystems.idmap.insert("tmpfs".into(), Support::No("Invalid argument".into()));
    for source in [VolumeSource::Secret, VolumeSource::Projected, VolumeSource::EmptyDir(Medium::Memory)] {
        let plan = plan(&isolated(source.clone()), &facts, &Policy::default()).unwrap();
        assert_eq!(plan.user_namespace.mode, UserNamespaceMode::Own, "{source:?}");
        assert_eq!(plan.volumes[0].owners, Owners::Translated, "{source:?}");
        assert_eq!(plan.mounts[0].idmap, Idmap::None, "{source:?}");
        assert!(plan.mounts[0].why.contains("made with the pod's host IDs"), "{}", plan.mounts[0].why);
    }
}

#[test]
fn a_filesystem_that_nobody_tried_yet_is_tried_before_the_pod_starts() {
    let hugepages = isolated(VolumeSource::EmptyDir(Medium::HugePages));
    let plan = plan(&hugepages, &facts(), &Policy::default()).unwrap();
    assert_eq!(plan.mounts[0].idmap, Idmap::Own);
    assert!(
        plan.mounts[0].why.contains("hugetlbfs: whether it can be idmapped is tried before the pod starts")
    );
}

#[test]
fn where_it_cannot_be_idmapped_the_policy_decides() {
    let shared = rules(|r| r.volumes.cannot_idmap = CannotIdmap::SharedBlock);
    let chown = rules(|r| r.volumes.cannot_idmap = CannotIdmap::ChownOnce);
    let (nfs, ext4) = (isolated(host_path(NFS)), isolated(host_path("/data")));
    assert_eq!(seen(&nfs, &shared), (UserNamespaceMode::Shared, Idmap::Shared, Owners::SharedBlocks));
    assert_eq!(seen(&nfs, &chown), (UserNamespaceMode::Own, Idmap::None, Owners::ChownedOnce));
    assert_eq!(seen(&ext4, &shared).0, UserNamespaceMode::Own);
    assert_eq!(seen(&ext4, &chown).1, Idmap::Own);
}

#[test]
fn one_volume_in_the_shared_block_takes_the_whole_pod_there() {
    let mut intent = isolated(host_path(NFS));
    intent.volumes.push(fixture::volume("own", VolumeSource::Secret));
    intent.containers[0].mounts.push(fixture::mount("own"));
    let plan =
        plan(&intent, &facts(), &rules(|r| r.volumes.cannot_idmap = CannotIdmap::SharedBlock)).unwrap();
    assert_eq!(plan.user_namespace.mode, UserNamespaceMode::Shared);
    assert_eq!(plan.volumes[1].owners, Owners::Idmapped);
    assert!(plan.mounts.iter().all(|m| m.idmap == Idmap::Shared));
    assert!(plan.warnings[0].text.contains("shares its IDs"));
}

#[test]
fn the_seeds_phase_two_is_a_rule_by_kind_or_by_filesystem() {
    let rule = |kinds: &[&str], filesystems: &[&str]| VolumeRuleFor {
        kinds: kinds.iter().map(|k| VolumeKind((*k).into())).collect(),
        filesystems: filesystems.iter().map(|f| (*f).into()).collect(),
        rule: VolumeRule::SharedBlock,
    };
    for rule in [rule(&["hostPath"], &[]), rule(&[], &["ext4"])] {
        let policy = rules(|r| r.volumes.rules = vec![rule]);
        let found = seen(&isolated(host_path("/data")), &policy);
        assert_eq!(found, (UserNamespaceMode::Shared, Idmap::Shared, Owners::SharedBlocks));
        assert_eq!(seen(&isolated(VolumeSource::Secret), &policy).0, UserNamespaceMode::Own);
    }
}

#[test]
fn the_seeds_phase_one_takes_five_kinds_and_no_other() {
    let policy = rules(|r| r.volumes.otherwise = VolumeRule::EphemeralOnly);
    let ephemeral = [
        VolumeSource::ConfigMap,
        VolumeSource::Secret,
        VolumeSource::DownwardApi,
        VolumeSource::Projected,
        VolumeSource::EmptyDir(Medium::Disk),
    ];
    for source in ephemeral {
        assert_eq!(seen(&isolated(source), &policy).0, UserNamespaceMode::Own);
    }
    for source in
        [host_path("/data"), VolumeSource::Image, VolumeSource::Nfs, VolumeSource::Claim { name: "c".into() }]
    {
        let refusal = only_refusal(plan(&isolated(source), &facts(), &policy));
        assert!(refusal.cause.starts_with("policy ephemeralOnly"), "{refusal}");
    }
}

#[test]
fn a_rule_can_keep_a_kind_from_isolated_pods_and_only_from_them() {
    let rule = VolumeRuleFor {
        kinds: vec![VolumeKind("hostPath".into())],
        filesystems: vec![],
        rule: VolumeRule::Refuse,
    };
    let policy = rules(|r| r.volumes.rules = vec![rule]);
    assert!(plan(&isolated(host_path("/data")), &facts(), &policy).is_err());
    assert!(plan(&with_volume(pod(None), host_path("/data")), &facts(), &policy).is_ok());
}

#[test]
fn a_pod_chooses_only_what_the_operator_lets_it() {
    let mut intent = isolated(host_path(NFS));
    intent.volume_policy = Some(VolumeChoice::ChownOnce);
    let refusals = plan(&intent, &facts(), &Policy::default()).unwrap_err();
    assert_eq!(refusals[0].field, "metadata.annotations[wardlet.dev/volume-policy]");
    let free = rules(|r| r.volumes.pods_may_choose = vec![VolumeChoice::ChownOnce]);
    assert_eq!(seen(&intent, &free).2, Owners::ChownedOnce);
}

#[test]
fn a_choice_never_opens_what_the_operator_closed() {
    let mut intent = isolated(host_path("/data"));
    for closed in [VolumeRule::EphemeralOnly, VolumeRule::Refuse] {
        for choice in [VolumeChoice::Refuse, VolumeChoice::SharedBlock, VolumeChoice::EphemeralOnly] {
            intent.volume_policy = Some(choice);
            let policy = rules(|r| {
                r.volumes.otherwise = closed;
                r.volumes.pods_may_choose = vec![choice];
            });
            assert!(plan(&intent, &facts(), &policy).is_err(), "{closed:?} {choice:?}");
        }
    }
}

#[test]
fn the_shared_block_has_no_more_ids_than_others() {
    let mut intent = isolated(host_path(NFS));
    intent.ids = Some(131_072);
    let policy = rules(|r| r.volumes.cannot_idmap = CannotIdmap::SharedBlock);
    let refusal = only_refusal(plan(&intent, &facts(), &policy));
    assert_eq!(refusal.cause, "volume \"v\" takes the shared block, which has 65536 IDs, not 131072");
}

#[test]
fn a_path_where_special_bits_count_on_the_host_is_warned_of_or_refused() {
    let refuse = rules(|r| r.volumes.host_setuid = HostSetuid::Refuse);
    let on = |here, below| {
        let mut facts = facts();
        facts.filesystems.setuid.insert("/data".into(), SetuidFacts { here, below });
        facts
    };
    let warned = |intent: &Intent, facts: &Facts| {
        let warnings = plan(intent, facts, &Policy::default()).unwrap().warnings;
        let is_refused = plan(intent, facts, &refuse).is_err();
        let of_it = |w: &Warning| w.field == "spec.volumes[0]" && w.text.contains("/data");
        assert_eq!(warnings.iter().any(of_it), is_refused, "the policy decides about what is warned of");
        is_refused
    };
    let writable = isolated(host_path("/data"));
    assert!(warned(&writable, &facts()), "a mount that was not examined is taken to count");
    assert!(warned(&writable, &on(true, false)) && warned(&writable, &on(false, true)));
    assert!(!warned(&writable, &on(false, false)), "nosuid on the host");
    let mut read_only = writable.clone();
    read_only.containers[0].mounts[0].read_only = true;
    assert!(!warned(&read_only, &on(true, false)));
    assert!(warned(&read_only, &on(true, true)), "mounts below are not read-only");
    read_only.containers[0].mounts[0].recursive_read_only = RecursiveReadOnly::Enabled;
    assert!(!warned(&read_only, &on(true, true)));
    let mut with_the_hosts_users = writable.clone();
    with_the_hosts_users.host_users = Some(true);
    assert!(!warned(&with_the_hosts_users, &on(true, true)), "its root is the host's");
    let chown = rules(|r| r.volumes.otherwise = VolumeRule::ChownOnce);
    let warnings = plan(&writable, &on(true, true), &chown).unwrap().warnings;
    assert!(!warnings.iter().any(|w| w.text.contains("/data")), "files of the pod's block");
    assert!(!warned(&isolated(VolumeSource::EmptyDir(Medium::Disk)), &on(true, true)));
    let refusal = only_refusal(plan(&writable, &on(true, false), &refuse));
    assert!(refusal.hint.as_ref().unwrap().contains("policy.volumes.hostSetuid"), "{refusal:?}");
}

#[test]
fn files_that_are_given_one_by_one_are_a_cost_that_is_said_before() {
    let chown = rules(|r| r.volumes.cannot_idmap = CannotIdmap::ChownOnce);
    let warnings = |path: &str| plan(&isolated(host_path(path)), &facts(), &chown).unwrap().warnings;
    let costs = |warning: &Warning| warning.text.contains("each file is given to the pod's host IDs");
    let of_nfs = warnings(NFS);
    assert_eq!(
        of_nfs.iter().filter(|w| costs(w)).map(|w| w.field.as_str()).collect::<Vec<_>>(),
        ["spec.volumes[0]"]
    );
    assert!(!warnings("/data").iter().any(costs), "an idmapped mount takes no time for files");
}
