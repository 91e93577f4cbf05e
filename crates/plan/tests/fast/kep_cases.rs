//! The cases that the SELinux mount KEP tells: its stories, its driver table, and every row of its
//! lists of conflicts.

use crate::fixture;

use fixture::{csi, gates, level, mount, pod, pv, selinux_facts, volume, with_volume};
use plan::selinux::{Meeting, Reach, VolumeLabel};
use plan::{
    AccessMode, ChangePolicy, HowLabelled, Intent, KubernetesVersion, LabelPlan, PersistentSource, Plan,
    Policy, VolumeSource, plan,
};

const ONCE_POD: &[AccessMode] = &[AccessMode::ReadWriteOncePod];
const MANY: &[AccessMode] = &[AccessMode::ReadWriteMany];

fn ebs(modes: &[AccessMode]) -> VolumeSource {
    pv(csi(Some(true)), modes)
}

fn under(gate_settings: &str, intent: &Intent) -> Plan {
    let policy = Policy { gates: gates(gate_settings).unwrap(), ..Policy::default() };
    plan(intent, &selinux_facts(), &policy).unwrap()
}

fn label(plan: &Plan, volume: &str) -> (HowLabelled, Option<String>) {
    let LabelPlan { how, context } = &plan.mounts.iter().find(|m| m.volume == volume).unwrap().label;
    (*how, context.as_ref().map(ToString::to_string))
}

fn labelled(categories: &str, policy: Option<ChangePolicy>) -> Intent {
    let mut intent = with_volume(pod(None), ebs(MANY));
    (intent.selinux, intent.change_policy) = (level(&format!("s0:{categories}")), policy);
    intent
}

fn privileged(policy: Option<ChangePolicy>) -> Intent {
    let mut intent = labelled("c1,c2", policy);
    intent.containers[0].privileged = true;
    intent
}

fn with_sub_path(mut intent: Intent, path: &str) -> Intent {
    intent.containers[0].mounts[0].sub_path = Some(path.into());
    intent
}

fn decided(gate_settings: &str, intent: &Intent) -> VolumeLabel {
    under(gate_settings, intent).volumes.remove(0).label
}

/// A runs, B comes, on one node with the newest gates.
fn b_meets_a(a: &Intent, b: &Intent) -> Meeting {
    decided("", a).meets(&decided("", b))
}

const RECURSIVE: Option<ChangePolicy> = Some(ChangePolicy::Recursive);
const MOUNT_OPTION: Option<ChangePolicy> = Some(ChangePolicy::MountOption);

// Stories.

#[test]
fn story_1_a_default_pod_is_relabelled_as_ever_under_all_gates() {
    let mut intent = with_volume(pod(None), ebs(ONCE_POD));
    intent.volumes.push(volume("token", VolumeSource::Projected));
    intent.containers[0].mounts.push(mount("token"));
    for settings in ["SELinuxMountReadWriteOncePod=false", "SELinuxMount=false", ""] {
        let plan = under(settings, &intent);
        assert_eq!(label(&plan, "v"), (HowLabelled::Relabel, None));
        assert_eq!(label(&plan, "token"), (HowLabelled::Relabel, None));
        assert!(!plan.lease_categories, "the runtime has a pair for a pod without a block");
    }
}

#[test]
fn story_2_a_level_is_filled_up_from_the_hosts_defaults_and_mounted_as_far_as_the_gates_go() {
    let context = "system_u:object_r:container_file_t:s0:c0,c10".to_owned();
    let story = |modes| {
        let mut intent = with_volume(pod(None), ebs(modes));
        intent.selinux = level("s0:c10,c0");
        intent.volumes.push(volume("token", VolumeSource::Secret));
        intent.containers[0].mounts.push(mount("token"));
        intent
    };
    let (mounted, relabelled) = (HowLabelled::Mount, HowLabelled::Relabel);
    for (settings, once_pod, many) in [
        ("SELinuxMountReadWriteOncePod=false", relabelled, relabelled),
        ("SELinuxMount=false", mounted, relabelled),
        ("", mounted, mounted),
    ] {
        for (modes, how) in [(ONCE_POD, once_pod), (MANY, many)] {
            let plan = under(settings, &story(modes));
            assert_eq!(label(&plan, "v"), (how, Some(context.clone())), "{settings}");
            assert_eq!(label(&plan, "token").0, relabelled);
        }
    }
}

#[test]
fn story_2_mounting_all_volumes_without_mounting_those_of_one_pod_is_refused_at_start() {
    assert!(gates("SELinuxMountReadWriteOncePod=false,SELinuxMount=true").is_err());
    assert!(!gates("SELinuxMountReadWriteOncePod=false").unwrap().on(plan::Gate::SelinuxMount));
}

#[test]
fn story_3_an_upgrade_mounts_more_step_by_step_unless_a_pod_opted_out() {
    let how = |version: &str, modes, policy| {
        let version: KubernetesVersion = version.parse().unwrap();
        let policy_of_node = Policy { gates: plan::Gates::defaults(version), ..Policy::default() };
        let mut intent = with_volume(pod(None), ebs(modes));
        (intent.selinux, intent.change_policy) = (level("s0:c1,c2"), policy);
        plan(&intent, &selinux_facts(), &policy_of_node).unwrap().mounts[0].label.how
    };
    let (mounted, relabelled) = (HowLabelled::Mount, HowLabelled::Relabel);
    for (version, once_pod, many) in [
        ("1.27", relabelled, relabelled),
        ("1.28", mounted, relabelled),
        ("1.33", mounted, relabelled),
        ("1.36", mounted, relabelled),
        ("1.37", mounted, mounted),
    ] {
        assert_eq!(how(version, ONCE_POD, None), once_pod, "{version}");
        assert_eq!(how(version, MANY, None), many, "{version}");
        assert_eq!(how(version, MANY, RECURSIVE), relabelled, "{version}");
    }
    assert_eq!(how("1.33", ONCE_POD, RECURSIVE), relabelled);
}

// What drivers announce.

#[test]
fn drivers_are_mounted_with_a_context_as_they_announce_it() {
    let how = |source| {
        let mut intent = with_volume(pod(None), pv(source, MANY));
        intent.selinux = level("s0:c1,c2");
        label(&under("", &intent), "v").0
    };
    assert_eq!(how(PersistentSource::Iscsi), HowLabelled::Mount);
    assert_eq!(how(csi(Some(true))), HowLabelled::Mount);
    assert_eq!(how(csi(None)), HowLabelled::Relabel);
    assert_eq!(how(csi(Some(false))), HowLabelled::Relabel);
    assert_eq!(how(PersistentSource::Nfs), HowLabelled::None);
}

// Conflicts on one node.

#[test]
fn recursive_pods_with_different_labels_both_run_as_before() {
    assert_eq!(b_meets_a(&labelled("c1,c2", RECURSIVE), &labelled("c8,c9", RECURSIVE)), Meeting::Starts);
}

#[test]
fn of_mounting_pods_with_different_labels_the_second_waits() {
    for policy in [None, MOUNT_OPTION] {
        assert_eq!(b_meets_a(&labelled("c1,c2", policy), &labelled("c8,c9", policy)), Meeting::Waits);
        assert_eq!(b_meets_a(&labelled("c1,c2", policy), &labelled("c2,c1", policy)), Meeting::Starts);
    }
}

#[test]
fn a_recursive_pod_waits_for_a_mounting_one() {
    assert_eq!(b_meets_a(&labelled("c1,c2", MOUNT_OPTION), &labelled("c1,c2", RECURSIVE)), Meeting::Waits);
}

#[test]
fn a_mounting_pod_waits_for_a_recursive_one() {
    assert_eq!(b_meets_a(&labelled("c1,c2", RECURSIVE), &labelled("c1,c2", MOUNT_OPTION)), Meeting::Waits);
}

#[test]
fn a_recursive_pod_runs_beside_a_privileged_one() {
    for policy in [None, MOUNT_OPTION, RECURSIVE] {
        assert_eq!(b_meets_a(&privileged(policy), &labelled("c8,c9", RECURSIVE)), Meeting::Starts);
        assert_eq!(b_meets_a(&labelled("c8,c9", RECURSIVE), &privileged(policy)), Meeting::Starts);
    }
}

#[test]
fn a_mounting_pod_waits_for_a_privileged_one() {
    for policy in [None, MOUNT_OPTION, RECURSIVE] {
        assert_eq!(b_meets_a(&privileged(policy), &labelled("c8,c9", MOUNT_OPTION)), Meeting::Waits);
        assert_eq!(b_meets_a(&labelled("c8,c9", MOUNT_OPTION), &privileged(policy)), Meeting::Waits);
    }
}

#[test]
fn recursive_pods_on_different_sub_paths_both_run() {
    let (a, b) = (labelled("c1,c2", RECURSIVE), labelled("c8,c9", RECURSIVE));
    assert_eq!(b_meets_a(&with_sub_path(a, "dir1"), &with_sub_path(b, "dir2")), Meeting::Starts);
}

#[test]
fn of_mounting_pods_on_different_sub_paths_the_second_waits() {
    let (a, b) = (labelled("c1,c2", MOUNT_OPTION), labelled("c8,c9", MOUNT_OPTION));
    assert_eq!(b_meets_a(&with_sub_path(a, "dir1"), &with_sub_path(b, "dir2")), Meeting::Waits);
}

#[test]
fn before_all_volumes_are_mounted_those_that_would_wait_start_and_are_counted() {
    let meeting =
        |a: &Intent, b: &Intent| decided("SELinuxMount=false", a).meets(&decided("SELinuxMount=false", b));
    assert_eq!(meeting(&labelled("c1,c2", None), &labelled("c8,c9", None)), Meeting::Counted);
    assert_eq!(meeting(&privileged(None), &labelled("c8,c9", None)), Meeting::Counted);
    assert_eq!(meeting(&labelled("c1,c2", None), &labelled("c8,c9", RECURSIVE)), Meeting::Counted);
    assert_eq!(meeting(&labelled("c1,c2", RECURSIVE), &labelled("c8,c9", RECURSIVE)), Meeting::Starts);
    assert_eq!(meeting(&labelled("c1,c2", None), &labelled("c1,c2", None)), Meeting::Starts);
}

#[test]
fn pods_on_a_driver_that_cannot_never_wait() {
    let on_old_driver = |categories| {
        let mut intent = with_volume(pod(None), pv(csi(None), MANY));
        intent.selinux = level(&format!("s0:{categories}"));
        intent
    };
    assert_eq!(b_meets_a(&on_old_driver("c1,c2"), &on_old_driver("c8,c9")), Meeting::Starts);
    assert_eq!(decided("", &on_old_driver("c1,c2")).reach, Reach::None);
}

#[test]
fn several_labels_on_a_persistent_volume_never_start_whatever_the_policy_and_the_driver() {
    let both = |source: PersistentSource, modes: &[AccessMode], policy| {
        let mut intent = with_volume(pod(None), pv(source, modes));
        let mut other = intent.containers[0].clone();
        other.name = "other".into();
        intent.containers.push(other);
        intent.containers[0].selinux = level("s0:c1,c2");
        intent.containers[1].selinux = level("s0:c8,c9");
        intent.change_policy = policy;
        intent
    };
    let refused = |settings: &str, intent: &Intent| {
        let policy = Policy { gates: gates(settings).unwrap(), ..Policy::default() };
        plan(intent, &selinux_facts(), &policy)
    };
    for policy in [None, MOUNT_OPTION, RECURSIVE] {
        for source in [csi(Some(true)), csi(None), PersistentSource::Iscsi, PersistentSource::Nfs] {
            let refusal = fixture::only_refusal(refused("", &both(source.clone(), MANY, policy)));
            let hint = refusal.hint.unwrap();
            assert!(hint.contains("a volume each") && !hint.contains("Recursive"), "{hint}");
            assert!(refused("SELinuxMount=false", &both(source.clone(), ONCE_POD, policy)).is_err());
            assert!(refused("SELinuxMount=false", &both(source, MANY, policy)).is_ok());
        }
    }
    // One that the pod names itself is no persistent volume: the runtime relabels it for one and then the other.
    let mut intent = both(csi(None), MANY, None);
    intent.volumes[0].source = VolumeSource::EmptyDir(plan::Medium::Disk);
    assert!(under("", &intent).warnings.iter().any(|w| w.text.contains("in turn")));
}

// Conflicts across nodes: each plan stands alone, so that both pods run, each with what its own
// node does.

#[test]
fn on_two_nodes_recursive_pods_relabel_the_volume_away_from_each_other() {
    for categories in ["c1,c2", "c8,c9"] {
        let plan = under("", &labelled(categories, RECURSIVE));
        let context = format!("system_u:object_r:container_file_t:s0:{categories}");
        assert_eq!(label(&plan, "v"), (HowLabelled::Relabel, Some(context)));
    }
}

#[test]
fn on_two_nodes_mounting_pods_each_have_their_own_context() {
    for categories in ["c1,c2", "c8,c9"] {
        let plan = under("", &labelled(categories, MOUNT_OPTION));
        let context = format!("system_u:object_r:container_file_t:s0:{categories}");
        assert_eq!(label(&plan, "v"), (HowLabelled::Mount, Some(context)));
    }
}

#[test]
fn on_two_nodes_one_relabels_and_the_other_mounts() {
    assert_eq!(label(&under("", &labelled("c1,c2", RECURSIVE)), "v").0, HowLabelled::Relabel);
    assert_eq!(label(&under("", &labelled("c8,c9", MOUNT_OPTION)), "v").0, HowLabelled::Mount);
}

// Privileged pods, and the KEP's plan B.

#[test]
fn a_privileged_containers_options_give_no_context_and_that_is_said() {
    let plan = under("", &privileged(None));
    assert_eq!(label(&plan, "v"), (HowLabelled::None, None));
    assert_eq!(plan.warnings[0].field, "spec.containers[0].securityContext.privileged");
}

#[test]
fn plan_b_sets_the_policy_of_all_pods_that_have_none() {
    let policy = fixture::rules(|r| r.default_change_policy = RECURSIVE);
    let how = |intent: &Intent| plan(intent, &selinux_facts(), &policy).unwrap().mounts[0].label.how;
    assert_eq!(how(&labelled("c1,c2", None)), HowLabelled::Relabel);
    assert_eq!(how(&labelled("c1,c2", MOUNT_OPTION)), HowLabelled::Mount);
}
