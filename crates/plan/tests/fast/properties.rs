//! What holds for every plan, tried on ten thousand pods, nodes and policies each.

use crate::fixture;

use ::selinux::SelinuxOptions;
use fixture::{FEDORA, csi, facts as good_node, pv};
use ids::{BlockLength, ContainerId, IdBlock, IdMapping};
use plan::*;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

fn cases() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// True once in a while, so that most pods have but one thing in their way, or nothing.
fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.03)
}

fn source() -> impl Strategy<Value = VolumeSource> {
    let modes = select(vec![vec![], vec![AccessMode::ReadWriteOncePod], vec![AccessMode::ReadWriteMany]]);
    let persistent = select(vec![csi(Some(true)), csi(None), PersistentSource::Iscsi, PersistentSource::Nfs]);
    let path = select(vec!["/data", "/srv/nfs/x"]);
    prop_oneof![
        Just(VolumeSource::ConfigMap),
        Just(VolumeSource::Secret),
        Just(VolumeSource::Projected),
        select(vec![Medium::Disk, Medium::Memory, Medium::HugePages]).prop_map(VolumeSource::EmptyDir),
        path.prop_map(|path| VolumeSource::HostPath { path: path.into() }),
        Just(VolumeSource::Image),
        Just(VolumeSource::Nfs),
        Just(VolumeSource::Claim { name: "claim".into() }),
        (persistent, modes).prop_map(|(source, modes)| pv(source, &modes)),
    ]
}

fn selinux() -> impl Strategy<Value = Option<SelinuxOptions>> {
    let level = select(vec!["s0:c1,c2", "s0:c8,c9", "", "nonsense"]);
    let level = prop_oneof![20 => Just("s0:c1,c2"), 1 => level];
    option::of(level.prop_map(|l| SelinuxOptions { level: Some(l.into()), ..SelinuxOptions::default() }))
}

fn id() -> impl Strategy<Value = Option<ContainerId>> {
    let id = prop_oneof![40 => 0..65_536_u64, 1 => 65_535..200_000_u64];
    option::weighted(0.3, id.prop_map(|id| ContainerId::try_from(id).unwrap()))
}

fn a_mount() -> impl Strategy<Value = Mount> {
    let rro = select(vec![
        RecursiveReadOnly::Disabled,
        RecursiveReadOnly::Disabled,
        RecursiveReadOnly::IfPossible,
        RecursiveReadOnly::Enabled,
    ]);
    (select(vec!["a", "b", "c"]), rro)
        .prop_map(|(v, recursive_read_only)| Mount { recursive_read_only, ..fixture::mount(v) })
}

fn container() -> impl Strategy<Value = Container> {
    let capabilities =
        prop::collection::vec(select(vec!["NET_ADMIN", "SYS_ADMIN"]).prop_map(String::from), 0..2);
    let devices = rarely().prop_map(|has| if has { vec![Device::default()] } else { vec![] });
    let proc_mount = rarely().prop_map(|all| if all { ProcMount::Unmasked } else { ProcMount::Default });
    (
        id(),
        id(),
        rarely(),
        proc_mount,
        capabilities,
        selinux(),
        prop::collection::vec(a_mount(), 0..3),
        devices,
    )
        .prop_map(
            |(run_as_user, run_as_group, privileged, proc_mount, add, selinux, mounts, devices)| Container {
                run_as_user,
                run_as_group,
                privileged,
                proc_mount,
                capabilities: Capabilities { add, drop: vec![] },
                selinux,
                mounts,
                devices,
                ..fixture::container("main")
            },
        )
}

fn intent() -> impl Strategy<Value = Intent> {
    let host =
        (rarely(), rarely(), rarely()).prop_map(|(network, pid, ipc)| HostNamespaces { network, pid, ipc });
    let volumes = [source(), source(), source()];
    let ids = option::weighted(0.1, select(vec![65_536, 131_072, 100_000, 1 << 33]));
    let choice = option::weighted(
        0.2,
        select(vec![
            VolumeChoice::Refuse,
            VolumeChoice::SharedBlock,
            VolumeChoice::ChownOnce,
            VolumeChoice::EphemeralOnly,
        ]),
    );
    let change = option::of(select(vec![ChangePolicy::MountOption, ChangePolicy::Recursive]));
    let handler = prop_oneof![20 => Just(""), 1 => Just("old"), 1 => Just("gone")];
    let asked = (any::<Option<bool>>(), host, ids, choice, change, handler);
    (asked, prop::collection::vec(container(), 1..4), volumes, selinux(), id()).prop_map(
        |(
            (host_users, host, ids, volume_policy, change_policy, handler),
            containers,
            volumes,
            selinux,
            fs_group,
        )| {
            let named = ["a", "b", "c"].into_iter().zip(volumes).map(|(n, s)| fixture::volume(n, s));
            Intent {
                host_users,
                host,
                containers,
                volumes: named.collect(),
                selinux,
                change_policy,
                fs_group,
                ids,
                volume_policy,
                runtime_handler: handler.into(),
                ..Intent::of("default", "web")
            }
        },
    )
}

fn facts() -> impl Strategy<Value = Facts> {
    let kernel = (rarely(), rarely(), rarely());
    let selinux = select(vec![SelinuxState::Disabled, SelinuxState::Enforcing]);
    (kernel, selinux, any::<bool>(), rarely(), rarely(), rarely()).prop_map(
        |((no_userns, none_left, no_idmap), state, contexts, no_blocks, no_ext4, no_handlers)| {
            let support = |missing: bool| if missing { Support::No("no".into()) } else { Support::Yes };
            let mut facts = good_node();
            facts.kernel = KernelFacts {
                user_namespaces: support(no_userns),
                max_user_namespaces: u64::from(!none_left) * 100,
                idmapped_mounts: support(no_idmap),
            };
            facts.filesystems.idmap.insert("ext4".into(), support(no_ext4));
            facts.selinux = SelinuxFacts { state, defaults: contexts.then(|| FEDORA.parse().unwrap()) };
            facts.pool.blocks *= u64::from(!no_blocks);
            if no_handlers {
                facts.runtime.handlers.clear();
            }
            facts
        },
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let gates = subsequence(Gate::ALL.to_vec(), 0..=1).prop_map(|off| {
        let text: Vec<String> = off.iter().map(|g| format!("{g}=false")).collect();
        fixture::gates(&text.join(",")).unwrap()
    });
    let rule = select(vec![
        VolumeRule::Own,
        VolumeRule::Own,
        VolumeRule::SharedBlock,
        VolumeRule::EphemeralOnly,
        VolumeRule::ChownOnce,
        VolumeRule::Refuse,
    ]);
    let cannot = select(vec![CannotIdmap::Refuse, CannotIdmap::SharedBlock, CannotIdmap::ChownOnce]);
    let rules = option::of(rule.clone()).prop_map(|rule| {
        let kinds = vec![VolumeKind("hostPath".into())];
        rule.map(|rule| VolumeRuleFor { kinds, filesystems: vec![], rule }).into_iter().collect()
    });
    let may =
        subsequence(vec![VolumeChoice::Refuse, VolumeChoice::SharedBlock, VolumeChoice::ChownOnce], 0..=3);
    let isolate = select(vec![Isolate::WhenAsked, Isolate::WhenSafe]);
    let closed = select(vec![OnClosedGate::AsBefore, OnClosedGate::Refuse]);
    (gates, rule, cannot, rules, may, isolate, closed).prop_map(
        |(gates, otherwise, cannot_idmap, rules, pods_may_choose, isolate, on_closed_gate)| Policy {
            gates,
            rules: Rules {
                volumes: VolumePolicy {
                    rules,
                    otherwise,
                    cannot_idmap,
                    pods_may_choose,
                    ..VolumePolicy::default()
                },
                on_closed_gate,
                isolate,
                default_change_policy: None,
                allowed_unsafe_sysctls: Vec::new(),
                disabled_features: Vec::new(),
            },
        },
    )
}

/// Every ID that the pod names.
fn named_ids(intent: &Intent) -> Vec<u32> {
    let of_containers = intent.containers.iter().flat_map(|c| [c.run_as_user, c.run_as_group]);
    of_containers.chain([intent.fs_group]).flatten().map(ContainerId::get).collect()
}

/// The lowest and the highest block that a lease of this length can be.
fn extreme_blocks(length: BlockLength) -> [IdBlock; 2] {
    let length = u64::from(length);
    let block = |n: u64| IdBlock::new(n * length, length);
    let highest = (1..(1 << 32) / length).rev().find_map(|n| block(n).ok());
    [block(1).unwrap(), highest.unwrap()]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_plan_never_maps_host_ids(intent in intent(), facts in facts(), policy in policy()) {
        let Ok(plan) = plan(&intent, &facts, &policy) else { return Ok(()) };
        match plan.user_namespace.mode {
            UserNamespaceMode::Host => {
                prop_assert_eq!(plan.user_namespace.length, None);
                prop_assert!(plan.mounts.iter().all(|m| m.idmap == Idmap::None));
                prop_assert!(plan.volumes.iter().all(|v| v.owners == Owners::AsOnDisk));
            }
            UserNamespaceMode::Own | UserNamespaceMode::Shared => {
                let length = plan.user_namespace.length.unwrap();
                for block in extreme_blocks(length) {
                    let host = IdMapping::of_block(block).host();
                    prop_assert!(host.first() >= 65_536 && host.end() <= u64::from(u32::MAX));
                }
                prop_assert!(named_ids(&intent).iter().all(|&id| id < length.get()));
                prop_assert!(plan.volumes.iter().all(|v| v.owners != Owners::AsOnDisk));
            }
        }
    }

    #[test]
    fn isolation_that_was_asked_for_is_had_or_refused_or_behind_the_operators_closed_gate(
        mut intent in intent(), facts in facts(), policy in policy()
    ) {
        intent.host_users = Some(false);
        match plan(&intent, &facts, &policy) {
            Err(refusals) => {
                prop_assert!(!refusals.is_empty());
                prop_assert!(refusals.iter().all(|r| !r.field.is_empty() && !r.cause.is_empty() && r.hint.is_some()));
            }
            Ok(plan) if plan.user_namespace.mode == UserNamespaceMode::Host => {
                prop_assert_eq!(plan.closed_gate, Some(Gate::UserNamespacesSupport));
                prop_assert!(!policy.gates.on(Gate::UserNamespacesSupport));
                prop_assert_eq!(policy.rules.on_closed_gate, OnClosedGate::AsBefore);
                prop_assert!(plan.warnings.iter().any(|w| w.field == "spec.hostUsers"));
            }
            Ok(plan) => {
                prop_assert!(policy.gates.on(Gate::UserNamespacesSupport) && plan.closed_gate.is_none());
                let shared = plan.volumes.iter().any(|v| v.owners == Owners::SharedBlocks);
                prop_assert_eq!(shared, plan.user_namespace.mode == UserNamespaceMode::Shared);
                prop_assert!(!intent.host.pid && !intent.host.ipc);
                prop_assert!(intent.containers.iter().all(|c| c.devices.is_empty()));
            }
        }
    }

    #[test]
    fn isolating_when_safe_stops_no_pod_that_would_run_without(
        mut intent in intent(), facts in facts(), mut policy in policy()
    ) {
        intent.host_users = None;
        policy.rules.isolate = Isolate::WhenAsked;
        let before = plan(&intent, &facts, &policy);
        policy.rules.isolate = Isolate::WhenSafe;
        let after = plan(&intent, &facts, &policy);
        if before.is_ok() {
            prop_assert!(after.is_ok(), "{:?}", after);
            prop_assert!(after.unwrap().volumes.iter().all(|v| matches!(v.owners, Owners::AsOnDisk | Owners::Idmapped | Owners::Translated)));
        }
    }

    #[test]
    fn the_same_input_gives_the_same_plan_also_after_a_journey_as_text(
        intent in intent(), facts in facts(), policy in policy()
    ) {
        let travelled: Intent = serde_json::from_str(&serde_json::to_string(&intent).unwrap()).unwrap();
        let facts_too: Facts = serde_json::from_str(&serde_json::to_string(&facts).unwrap()).unwrap();
        prop_assert_eq!(&travelled, &intent);
        prop_assert_eq!(&facts_too, &facts);
        let (first, second) = (plan(&intent, &facts, &policy), plan(&travelled, &facts_too, &policy));
        prop_assert_eq!(format!("{first:?}"), format!("{second:?}"));
    }

    #[test]
    fn every_mount_of_the_pod_is_in_the_plan(intent in intent(), facts in facts(), policy in policy()) {
        let Ok(plan) = plan(&intent, &facts, &policy) else { return Ok(()) };
        let asked: Vec<_> = intent.containers.iter().flat_map(|c| c.mounts.iter().map(|m| m.volume.clone())).collect();
        let planned: Vec<_> = plan.mounts.iter().map(|m| m.volume.clone()).collect();
        prop_assert_eq!(asked, planned);
        prop_assert!(plan.mounts.iter().all(|m| !m.why.is_empty()) && !plan.reasons.is_empty());
    }
}

/// The properties above would hold for nothing as well.
#[test]
fn the_pods_that_are_tried_have_every_outcome_often() {
    let mut runner = TestRunner::deterministic();
    let mut seen = [0; 4];
    for _ in 0..2_000 {
        let (mut intent, facts, policy) =
            (intent(), facts(), policy()).new_tree(&mut runner).unwrap().current();
        intent.host_users = Some(false);
        match plan(&intent, &facts, &policy).map(|p| p.user_namespace.mode) {
            Ok(UserNamespaceMode::Own) => seen[0] += 1,
            Ok(UserNamespaceMode::Shared) => seen[1] += 1,
            Ok(UserNamespaceMode::Host) => seen[2] += 1,
            Err(_) => seen[3] += 1,
        }
    }
    assert!(seen.iter().all(|&n| n >= 50), "{seen:?}");
}
