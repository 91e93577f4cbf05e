//! The label decision over every combination of what it depends on, against the KEP's conditions
//! written out once more as one sentence each.

use crate::fixture;

use ::selinux::SelinuxOptions;
use fixture::{container, csi, gates, level, mount, pv, selinux_facts, volume};
use plan::*;

const L: &str = "system_u:object_r:container_file_t:s0:c1,c2";

/// The containers of a pod that mounts one volume everywhere.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Labels {
    None,
    TypeOnly,
    PodLevel,
    AllContainers,
    OneOfTwo,
    TwoDifferent,
    PrivilegedWithLevel,
    PrivilegedAndLabelled,
    ContainerWithoutLevelOverPod,
    EmptyOverPodLevel,
}

const LABELS: [Labels; 10] = [
    Labels::None,
    Labels::TypeOnly,
    Labels::PodLevel,
    Labels::AllContainers,
    Labels::OneOfTwo,
    Labels::TwoDifferent,
    Labels::PrivilegedWithLevel,
    Labels::PrivilegedAndLabelled,
    Labels::ContainerWithoutLevelOverPod,
    Labels::EmptyOverPodLevel,
];

impl Labels {
    fn apply(self, pod: &mut Intent) {
        let type_only = SelinuxOptions { kind: Some("container_t".into()), ..SelinuxOptions::default() };
        let [a, b] = pod.containers.as_mut_slice() else { unreachable!() };
        match self {
            Self::None => {}
            Self::TypeOnly => pod.selinux = Some(type_only),
            Self::PodLevel => pod.selinux = level("s0:c2,c1"),
            Self::AllContainers => (a.selinux, b.selinux) = (level("s0:c1,c2"), level("s0:c2,c1")),
            Self::OneOfTwo => a.selinux = level("s0:c1,c2"),
            Self::TwoDifferent => (a.selinux, b.selinux) = (level("s0:c1,c2"), level("s0:c8,c9")),
            Self::PrivilegedWithLevel => {
                (a.selinux, b.selinux) = (level("s0:c1,c2"), level("s0:c1,c2"));
                (a.privileged, b.privileged) = (true, true);
            }
            Self::PrivilegedAndLabelled => {
                (a.selinux, b.selinux) = (level("s0:c1,c2"), level("s0:c8,c9"));
                b.privileged = true;
            }
            Self::ContainerWithoutLevelOverPod => {
                pod.selinux = level("s0:c8,c9");
                (a.selinux, b.selinux) = (level("s0:c1,c2"), Some(type_only));
            }
            Self::EmptyOverPodLevel => {
                pod.selinux = level("s0:c1,c2");
                b.selinux = Some(SelinuxOptions::default());
            }
        }
    }

    /// A label that at least one unprivileged container has.
    fn known(self) -> bool {
        !matches!(self, Self::None | Self::TypeOnly | Self::PrivilegedWithLevel)
    }
}

const MODES: [&[AccessMode]; 6] = [
    &[],
    &[AccessMode::ReadWriteOncePod],
    &[AccessMode::ReadWriteOnce],
    &[AccessMode::ReadWriteMany],
    &[AccessMode::ReadOnlyMany],
    &[AccessMode::ReadWriteOncePod, AccessMode::ReadWriteOnce],
];

/// A volume with what the KEP says of it.
struct Kind {
    source: VolumeSource,
    /// The kubelet treats it as a persistent volume.
    persistent: bool,
    /// It announces, or the KEP knows, that it can be mounted with a context.
    announces: bool,
    once_pod: bool,
    /// It was relabelled before the KEP.
    relabelled: bool,
}

fn secret() -> Kind {
    let source = VolumeSource::Secret;
    Kind { source, persistent: false, announces: false, once_pod: false, relabelled: true }
}

fn kinds() -> Vec<Kind> {
    let inline = |source, relabelled| Kind {
        persistent: matches!(source, VolumeSource::Claim { .. }),
        source,
        announces: false,
        once_pod: false,
        relabelled,
    };
    let mut kinds = vec![
        inline(VolumeSource::ConfigMap, true),
        inline(VolumeSource::Secret, true),
        inline(VolumeSource::DownwardApi, true),
        inline(VolumeSource::Projected, true),
        inline(VolumeSource::EmptyDir(Medium::Disk), true),
        inline(VolumeSource::EmptyDir(Medium::Memory), true),
        inline(VolumeSource::HostPath { path: "/data".into() }, false),
        inline(VolumeSource::Nfs, false),
        inline(VolumeSource::Image, false),
        inline(VolumeSource::CsiInline { driver: "d".into() }, true),
        inline(VolumeSource::Iscsi, true),
        inline(VolumeSource::FibreChannel, true),
        inline(VolumeSource::Claim { name: "c".into() }, true),
        inline(VolumeSource::Other("flexVolume".into()), true),
    ];
    for (selinux_mount, announces) in [(Some(true), true), (Some(false), false), (None, false)] {
        let VolumeSource::Persistent(volume) = pv(csi(selinux_mount), &[AccessMode::ReadWriteOnce]) else {
            unreachable!()
        };
        let own = InTreeVolume { kind: "awsElasticBlockStore".into(), handle: "vol-1".into(), volume };
        let source = VolumeSource::InTree(own);
        kinds.push(Kind { source, persistent: true, announces, once_pod: false, relabelled: true });
    }
    for modes in MODES {
        for (source, announces, relabelled) in [
            (csi(Some(true)), true, true),
            (csi(Some(false)), false, true),
            (csi(None), false, true),
            (PersistentSource::Iscsi, true, true),
            (PersistentSource::FibreChannel, true, true),
            (PersistentSource::Nfs, false, false),
            (PersistentSource::HostPath { path: "/data".into() }, false, false),
            (PersistentSource::Local { path: "/data".into() }, false, true),
            (PersistentSource::Other("azureFile".into()), false, true),
        ] {
            let once_pod = matches!(modes, [AccessMode::ReadWriteOncePod]);
            let source = pv(source, modes);
            kinds.push(Kind { source, persistent: true, announces, once_pod, relabelled });
        }
    }
    kinds
}

/// What the KEP calls the three phases, and before.
const PHASES: [(&str, [bool; 3]); 4] = [
    ("SELinuxMountReadWriteOncePod=false", [false, false, false]),
    ("SELinuxChangePolicy=false", [true, false, false]),
    ("SELinuxMount=false", [true, true, false]),
    ("", [true, true, true]),
];

const POLICIES: [Option<ChangePolicy>; 3] =
    [None, Some(ChangePolicy::MountOption), Some(ChangePolicy::Recursive)];

fn pod(kind: &Kind, labels: Labels, sub_path: Option<&str>) -> Intent {
    let containers = ["a", "b"].map(|name| Container {
        mounts: vec![Mount { sub_path: sub_path.map(Into::into), ..mount("v") }],
        ..container(name)
    });
    let mut pod = Intent {
        volumes: vec![volume("v", kind.source.clone())],
        containers: containers.to_vec(),
        ..Intent::of("default", "web")
    };
    labels.apply(&mut pod);
    pod
}

#[derive(Debug, PartialEq)]
enum Expected {
    Mount,
    Before,
    Nothing,
    Refused,
}

struct Setting {
    enabled: bool,
    phase: [bool; 3],
    pod_policy: Option<ChangePolicy>,
    node_policy: Option<ChangePolicy>,
}

/// The KEP's conditions, in its own order.
fn expected(s: &Setting, kind: &Kind, labels: Labels) -> Expected {
    let [once_pod_gate, policy_gate, all_gate] = s.phase;
    if !s.enabled {
        return Expected::Nothing;
    }
    let interpreted = if policy_gate && s.pod_policy.is_some() { s.pod_policy } else { s.node_policy };
    let opted_out = interpreted == Some(ChangePolicy::Recursive);
    let in_phase = once_pod_gate && (all_gate || kind.once_pod);
    let several = matches!(labels, Labels::TwoDifferent | Labels::EmptyOverPodLevel);
    if several && kind.persistent && in_phase {
        return Expected::Refused;
    }
    let all = !opted_out && in_phase && labels.known() && kind.announces;
    match all {
        true => Expected::Mount,
        false if kind.relabelled => Expected::Before,
        false => Expected::Nothing,
    }
}

fn check(s: &Setting, facts: &Facts, policy: &Policy, kind: &Kind) {
    for labels in LABELS {
        for sub_path in [None, Some("dir")] {
            let mut pod = pod(kind, labels, sub_path);
            pod.change_policy = s.pod_policy;
            let found = plan(&pod, facts, policy);
            let case = || {
                format!("{:?} {:?} {:?} {:?} {labels:?}", s.phase, s.pod_policy, s.node_policy, kind.source)
            };
            let expected = expected(s, kind, labels);
            let Ok(found) = found else {
                assert_eq!(expected, Expected::Refused, "{}", case());
                continue;
            };
            for (mounted, container) in found.mounts.iter().zip(&pod.containers) {
                let how = match expected {
                    Expected::Mount => HowLabelled::Mount,
                    Expected::Before if !container.privileged => HowLabelled::Relabel,
                    Expected::Before | Expected::Nothing => HowLabelled::None,
                    Expected::Refused => unreachable!("{}", case()),
                };
                assert_eq!(mounted.label.how, how, "{}", case());
                if how == HowLabelled::Mount {
                    assert_eq!(mounted.label.context.as_ref().unwrap().to_string(), L, "{}", case());
                }
            }
        }
    }
}

#[test]
fn a_volume_is_mounted_with_a_context_just_when_all_the_keps_conditions_hold() {
    let kinds = kinds();
    for (state, enabled) in
        [(SelinuxState::Disabled, false), (SelinuxState::Permissive, true), (SelinuxState::Enforcing, true)]
    {
        let mut facts = selinux_facts();
        facts.selinux.state = state;
        for (text, phase) in PHASES {
            for pod_policy in POLICIES {
                for node_policy in POLICIES {
                    let setting = Setting { enabled, phase, pod_policy, node_policy };
                    let rules = Rules { default_change_policy: node_policy, ..Rules::default() };
                    let policy = Policy { gates: gates(text).unwrap(), rules };
                    kinds.iter().for_each(|kind| check(&setting, &facts, &policy, kind));
                }
            }
        }
    }
}

#[test]
fn a_node_without_a_contexts_file_mounts_nothing_with_a_context_and_says_so() {
    let mut facts = selinux_facts();
    facts.selinux.defaults = None;
    let kind = Kind {
        source: pv(csi(Some(true)), &[]),
        persistent: true,
        announces: true,
        once_pod: false,
        relabelled: true,
    };
    let plan = plan(&pod(&kind, Labels::PodLevel, None), &facts, &Policy::default()).unwrap();
    assert_eq!(plan.mounts[0].label, LabelPlan { how: HowLabelled::Relabel, context: None });
    assert!(plan.warnings[0].text.contains("no contexts file"));
}

#[test]
fn a_level_that_cannot_be_read_is_refused_where_selinux_is_on() {
    let kind = secret();
    let mut intent = pod(&kind, Labels::None, None);
    intent.selinux = level("c1,c2");
    let refusal = fixture::only_refusal(plan(&intent, &selinux_facts(), &Policy::default()));
    assert_eq!(refusal.field, "spec.securityContext.seLinuxOptions");
    assert!(plan(&intent, &fixture::facts(), &Policy::default()).is_ok());
}

#[test]
fn a_change_policy_behind_a_closed_gate_is_ignored_aloud_or_refused() {
    let kind = Kind {
        source: pv(csi(Some(true)), MODES[1]),
        persistent: true,
        announces: true,
        once_pod: true,
        relabelled: true,
    };
    let mut intent = pod(&kind, Labels::PodLevel, None);
    intent.change_policy = Some(ChangePolicy::Recursive);
    let mut policy = fixture::policy("SELinuxChangePolicy=false");
    let planned = plan(&intent, &selinux_facts(), &policy).unwrap();
    assert_eq!(planned.mounts[0].label.how, HowLabelled::Mount);
    assert_eq!(planned.warnings[0].field, "spec.securityContext.seLinuxChangePolicy");
    policy.rules.on_closed_gate = OnClosedGate::Refuse;
    assert!(plan(&intent, &selinux_facts(), &policy).is_err());
}

#[test]
fn containers_without_a_level_take_a_leased_pair_of_categories() {
    let kind = secret();
    for (labels, leased) in [
        (Labels::None, true),
        (Labels::TypeOnly, true),
        (Labels::OneOfTwo, true),
        (Labels::PodLevel, false),
        (Labels::PrivilegedWithLevel, false),
    ] {
        let lease = |host_users, facts| {
            let intent = Intent { host_users, ..pod(&kind, labels, None) };
            plan(&intent, &facts, &Policy::default()).unwrap().lease_categories
        };
        assert_eq!(lease(Some(false), selinux_facts()), leased, "{labels:?}");
        assert!(!lease(Some(false), fixture::facts()));
        // A pod without a block gets its pair from the runtime; it was planned here and never leased.
        assert!(!lease(None, selinux_facts()), "{labels:?}");
    }
}
