//! The cases of KEP-1710, one by one, and what must not be reported.

use crate::cases;

use cases::*;
use conflicts::AccessMode::{ReadWriteMany, ReadWriteOnce, ReadWriteOncePod};
use conflicts::*;
use selinux::{HostDefaults, SelinuxOptions};

const C1: &str = "s0:c1,c2";
const C8: &str = "s0:c8,c9";
const NOTHING: [&str; 0] = [];

const FEDORA: &str =
    "process = \"system_u:system_r:container_t:s0\"\nfile = \"system_u:object_r:container_file_t:s0\"";

fn fedora() -> HostDefaults {
    FEDORA.parse().unwrap()
}

fn both_on_alpha(a: Pod, b: Pod) -> Engine {
    cluster(&[on(a, "alpha"), on(b, "alpha")])
}

fn apart(a: Pod, b: Pod) -> Engine {
    cluster(&[on(a, "alpha"), on(b, "beta")])
}

mod single_node {
    use super::*;

    #[test]
    fn two_labels_both_recursive_are_not_reported() {
        let engine = both_on_alpha(recursive(labelled("a", C1)), recursive(labelled("b", C8)));
        assert_eq!(lines(&engine), NOTHING);
    }

    #[test]
    fn two_labels_both_mounted_conflict_in_the_label() {
        let explicit = |p| with_policy(p, ChangePolicy::MountOption);
        let engine = both_on_alpha(explicit(labelled("a", C1)), labelled("b", C8));
        assert_eq!(lines(&engine), [r#"SELinuxLabel shop/a ":::s0:c1,c2" shop/b ":::s0:c8,c9""#]);
        assert_eq!(meeting(&engine), Meeting::OnOneNode);
    }

    #[test]
    fn a_mounting_and_a_recursive_pod_conflict_in_the_policy_whichever_came_first() {
        let expected = [
            r#"SELinuxChangePolicy shop/b "Recursive" shop/a "MountOption""#,
            r#"SELinuxLabel shop/b "" shop/a ":::s0:c1,c2""#,
        ];
        let (a, b) = (labelled("a", C1), recursive(labelled("b", C1)));
        assert_eq!(lines(&both_on_alpha(a.clone(), b.clone())), expected);
        assert_eq!(lines(&both_on_alpha(b, a)), expected);
    }

    #[test]
    fn a_privileged_pod_and_a_recursive_one_are_not_reported() {
        for a in [privileged("a"), recursive(privileged("a"))] {
            assert_eq!(lines(&both_on_alpha(a, recursive(labelled("b", C8)))), NOTHING);
        }
    }

    #[test]
    fn a_privileged_pod_and_a_mounting_one_conflict_whatever_the_policy_of_the_privileged() {
        for a in [privileged("a"), recursive(privileged("a"))] {
            let engine = both_on_alpha(a, labelled("b", C8));
            assert_eq!(
                lines(&engine),
                [
                    r#"SELinuxChangePolicy shop/a "Recursive" shop/b "MountOption""#,
                    r#"SELinuxLabel shop/a "" shop/b ":::s0:c8,c9""#,
                ]
            );
            assert!(engine.conflicts().all(|c| c.sharing().privileged));
        }
    }

    #[test]
    fn two_labels_on_two_sub_paths_conflict_and_it_is_said_that_they_are_sub_paths() {
        let engine = both_on_alpha(sub_path(labelled("a", C1)), sub_path(labelled("b", C8)));
        assert_eq!(lines(&engine).len(), 1);
        assert!(engine.conflicts().all(|c| c.sharing().sub_paths && !c.sharing().privileged));
        let engine = both_on_alpha(sub_path(labelled("a", C1)), labelled("b", C8));
        assert!(engine.conflicts().all(|c| !c.sharing().sub_paths));
    }

    #[test]
    fn two_labels_on_two_sub_paths_both_recursive_are_not_reported() {
        let [a, b] = [("a", C1), ("b", C8)].map(|(name, of)| recursive(sub_path(labelled(name, of))));
        assert_eq!(lines(&both_on_alpha(a, b)), NOTHING);
    }
}

mod multiple_nodes {
    use super::*;

    #[test]
    fn two_labels_both_recursive_are_not_reported() {
        assert_eq!(lines(&apart(recursive(labelled("a", C1)), recursive(labelled("b", C8)))), NOTHING);
    }

    #[test]
    fn two_labels_both_mounted_are_reported_before_the_pods_meet() {
        let engine = apart(labelled("a", C1), labelled("b", C8));
        assert_eq!(lines(&engine), [r#"SELinuxLabel shop/a ":::s0:c1,c2" shop/b ":::s0:c8,c9""#]);
        assert_eq!(meeting(&engine), Meeting::MayMeet);
    }

    #[test]
    fn a_recursive_and_a_mounting_pod_are_reported_before_they_meet() {
        let engine = apart(recursive(labelled("a", C1)), labelled("b", C8));
        assert_eq!(lines(&engine).len(), 2);
        assert_eq!(meeting(&engine), Meeting::MayMeet);
    }
}

mod drivers {
    use super::*;

    fn with_source(source: VolumeSource, said: Option<bool>) -> Engine {
        let mut engine = cluster(&[labelled("a", C1), labelled("b", C8)]);
        engine.remove_driver(DRIVER);
        engine.put_volume(&PersistentVolume { source, ..volume("shop", &[ReadWriteMany]) });
        if let Some(said) = said {
            engine.put_driver(&driver(said));
        }
        engine
    }

    #[test]
    fn a_csi_driver_counts_if_it_says_so_and_only_then() {
        let csi = || VolumeSource::Csi { driver: DRIVER.to_owned() };
        assert_eq!(with_source(csi(), Some(true)).count(), 1);
        assert_eq!(with_source(csi(), Some(false)).count(), 0);
        let silent = with_source(csi(), None);
        assert_eq!((silent.count(), silent.undeclared_drivers().collect::<Vec<_>>()), (0, vec![DRIVER]));
    }

    #[test]
    fn iscsi_and_fibre_channel_count_and_no_other_built_in_kind_does() {
        assert_eq!(with_source(VolumeSource::Iscsi, None).count(), 1);
        assert_eq!(with_source(VolumeSource::FibreChannel, None).count(), 1);
        assert_eq!(with_source(VolumeSource::Other, None).count(), 0);
    }

    #[test]
    fn a_volume_named_in_the_pods_themselves_is_counted_but_blocks_nobody() {
        let inline = |name, of| {
            let mut pod = labelled(name, of);
            pod.volumes[0].source =
                PodVolumeSource::Inline { id: VolumeId::new("iscsi", "x"), source: VolumeSource::Iscsi };
            pod
        };
        let engine = cluster(&[inline("a", C1), inline("b", C8)]);
        assert_eq!(engine.conflicts().map(|c| c.reach()).collect::<Vec<_>>(), [Reach::Counted]);
    }

    fn migrated(name: &str, of: &str) -> Pod {
        let mut pod = labelled(name, of);
        let id = VolumeId::csi(DRIVER, "vol-1");
        let access_modes = vec![ReadWriteOnce];
        pod.volumes[0].source = PodVolumeSource::Migrated { id, driver: DRIVER.to_owned(), access_modes };
        pod
    }

    fn reaches(engine: &Engine) -> Vec<Reach> {
        engine.conflicts().map(|c| c.reach()).collect()
    }

    #[test]
    fn a_migrated_volume_named_in_the_pods_themselves_blocks_as_a_persistent_one() {
        let engine = cluster(&[migrated("a", C1), migrated("b", C8)]);
        assert_eq!((reaches(&engine), meeting(&engine)), (vec![Reach::Enforced], Meeting::MustMeet));
        let gates = Gates { mount: false, ..Gates::default() };
        let before = Rules { gates, ..Rules::default() };
        let engine = cluster_with(before, &[ReadWriteMany], &[migrated("a", C1), migrated("b", C8)]);
        assert_eq!(reaches(&engine), [Reach::Counted]);
    }

    #[test]
    fn a_claim_and_a_pod_that_names_the_same_disk_conflict() {
        let engine = cluster(&[labelled("a", C1), migrated("b", C8)]);
        assert_eq!(lines(&engine), [r#"SELinuxLabel shop/a ":::s0:c1,c2" shop/b ":::s0:c8,c9""#]);
    }

    #[test]
    fn a_migrated_volume_follows_its_driver_and_leaves_nothing_behind() {
        let mut engine = Engine::new(Rules::default());
        for pod in [migrated("a", C1), migrated("b", C8)] {
            engine.put_pod(&pod);
        }
        assert_eq!((engine.count(), engine.undeclared_drivers().collect::<Vec<_>>()), (0, vec![DRIVER]));
        engine.put_driver(&driver(true));
        assert_eq!(engine.count(), 1);
        engine.put_driver(&driver(false));
        assert_eq!(engine.count(), 0);
        engine.put_driver(&driver(true));
        engine.put_pod(&labelled("b", C8));
        assert_eq!(engine.count(), 0);
        for name in ["a", "b"] {
            engine.remove_pod(&pod(name).key, None);
        }
        engine.remove_driver(DRIVER);
        assert!(engine.is_empty());
    }

    #[test]
    fn several_labels_on_a_volume_stop_the_pod_under_every_policy_and_driver() {
        let both = |name| {
            let mount = |of| Mount { options: level(of), ..Mount::default() };
            using(pod(name), vec![mount(C1), mount(C8)])
        };
        for pod in [both("a"), recursive(both("a"))] {
            for driver in [Some(true), Some(false), None] {
                let mut engine = cluster(std::slice::from_ref(&pod));
                match driver {
                    Some(can) => drop(engine.put_driver(&cases::driver(can))),
                    None => drop(engine.remove_driver(DRIVER)),
                }
                let says: Vec<Says> = engine.remarks().map(|remark| remark.says).collect();
                assert!(
                    matches!(says.as_slice(), [Says::MultipleLabels { reach: Reach::Enforced, .. }]),
                    "{driver:?} {says:?}"
                );
            }
        }
    }
}

mod labels_filled_in {
    use super::*;

    fn kind(name: &str, kind: &str, level: &str) -> Pod {
        let options =
            SelinuxOptions { kind: Some(kind.into()), level: Some(level.into()), ..Default::default() };
        using(pod(name), vec![Mount { options: Some(options), ..Mount::default() }])
    }

    #[test]
    fn a_type_that_only_one_names_is_incomparable() {
        assert_eq!(lines(&cluster(&[kind("a", "container_t", C1), labelled("b", C1)])), NOTHING);
    }

    #[test]
    fn types_that_both_name_are_compared() {
        let pods = [kind("a", "container_t", C1), kind("b", "spc_t", C1)];
        assert_eq!(
            lines(&cluster(&pods)),
            [r#"SELinuxLabel shop/a "::container_t:s0:c1,c2" shop/b "::spc_t:s0:c1,c2""#]
        );
        // The files' type is the host's, whatever the processes' types.
        let rules = Rules { defaults: Some(fedora()), ..Rules::default() };
        assert_eq!(lines(&cluster_with(rules, &[ReadWriteMany], &pods)), NOTHING);
    }

    #[test]
    fn with_known_defaults_conflicts_name_the_labels_of_the_files() {
        let rules = Rules { defaults: Some(fedora()), ..Rules::default() };
        let pods = [labelled("testpod-c1", "s0:c0,c1"), labelled("testpod-c2", "s0:c2,c0")];
        let (a, b) =
            ("system_u:object_r:container_file_t:s0:c0,c1", "system_u:object_r:container_file_t:s0:c0,c2");
        let line = format!("SELinuxLabel shop/testpod-c1 {a:?} shop/testpod-c2 {b:?}");
        assert_eq!(lines(&cluster_with(rules, &[ReadWriteMany], &pods)), [line]);
    }

    #[test]
    fn a_level_is_never_filled_in() {
        let only_type = SelinuxOptions { kind: Some("container_t".into()), ..Default::default() };
        let a = using(pod("a"), vec![Mount { options: Some(only_type), ..Mount::default() }]);
        let engine = cluster(&[a, labelled("b", C1)]);
        assert_eq!(lines(&engine), [r#"SELinuxLabel shop/b ":::s0:c1,c2" shop/a "::container_t:""#]);
        let says: Vec<_> = engine.remarks().map(|r| (r.pod.name(), r.says)).collect();
        assert_eq!(says, [("a", Says::WithoutLevel)]);
    }

    #[test]
    fn a_recursive_pod_and_one_without_a_level_conflict_in_the_policy_only() {
        let only_type = SelinuxOptions { kind: Some("container_t".into()), ..Default::default() };
        let a = using(pod("a"), vec![Mount { options: Some(only_type), ..Mount::default() }]);
        assert_eq!(
            lines(&cluster(&[a, recursive(labelled("b", C1))])),
            [r#"SELinuxChangePolicy shop/b "Recursive" shop/a "MountOption""#]
        );
    }
}

mod not_reported {
    use super::*;

    #[test]
    fn equal_labels_however_they_are_written() {
        assert_eq!(lines(&cluster(&[labelled("a", "s0:c2,c1"), labelled("b", C1)])), NOTHING);
    }

    #[test]
    fn pods_without_labels() {
        assert_eq!(lines(&cluster(&[unlabelled("a"), privileged("b")])), NOTHING);
    }

    #[test]
    fn finished_pods() {
        let mut done = labelled("a", C1);
        let mut engine = cluster(&[done.clone(), labelled("b", C8)]);
        assert_eq!(engine.count(), 1);
        done.life = Life::Finished;
        let effects = engine.put_pod(&done);
        assert_eq!(effects.ended(&engine).count(), 1);
        assert_eq!(lines(&engine), NOTHING);
    }

    #[test]
    fn a_pod_with_itself() {
        let a = labelled("a", C1);
        let mut engine = cluster(std::slice::from_ref(&a));
        assert!(engine.put_pod(&a).is_empty());
        engine.put_pod(&labelled("a", C8));
        assert_eq!(lines(&engine), NOTHING);
    }

    #[test]
    fn volumes_that_no_container_mounts() {
        let engine = cluster(&[using(pod("a"), vec![]), labelled("b", C8)]);
        assert_eq!(lines(&engine), NOTHING);
    }

    #[test]
    fn anything_while_the_first_gate_is_off() {
        let gates = Gates { read_write_once_pod: false, ..Gates::default() };
        let rules = Rules { gates, ..Rules::default() };
        let engine = cluster_with(rules, &[ReadWriteMany], &[labelled("a", C1), labelled("b", C8)]);
        assert_eq!(lines(&engine), NOTHING);
    }
}

mod gates {
    use super::*;

    fn reach(mount: bool, modes: &[AccessMode]) -> Reach {
        let rules = Rules { gates: Gates { mount, ..Gates::default() }, ..Rules::default() };
        let engine = cluster_with(rules, modes, &[labelled("a", C1), labelled("b", C8)]);
        engine.conflicts().next().expect("there is a conflict").reach()
    }

    #[test]
    fn before_the_upgrade_conflicts_are_found_but_block_nobody() {
        assert_eq!(reach(false, &[ReadWriteMany]), Reach::Counted);
        assert_eq!(reach(false, &[ReadWriteOncePod]), Reach::Enforced);
        assert_eq!(reach(true, &[ReadWriteMany]), Reach::Enforced);
    }

    #[test]
    fn without_the_gate_for_policies_nobody_can_opt_out() {
        let gates = Gates { change_policy: false, ..Gates::default() };
        let rules = Rules { gates, ..Rules::default() };
        let pods = [recursive(labelled("a", C1)), recursive(labelled("b", C8))];
        assert_eq!(cluster_with(rules, &[ReadWriteOnce], &pods).count(), 1);
    }
}

mod one_pod {
    use super::*;

    fn mounts(options: &[Option<SelinuxOptions>]) -> Vec<Mount> {
        options.iter().map(|o| Mount { options: o.clone(), ..Mount::default() }).collect()
    }

    fn says(engine: &Engine) -> Vec<Says> {
        engine.remarks().map(|r| r.says).collect()
    }

    #[test]
    fn two_labels_on_one_volume_are_said_and_not_compared_whatever_the_policy_and_driver() {
        let a = using(pod("a"), mounts(&[level(C1), level(C8)]));
        for (pod, can) in [(a.clone(), true), (recursive(a.clone()), true), (a, false)] {
            let mut engine = cluster(&[pod, labelled("b", C8)]);
            engine.put_driver(&driver(can));
            assert_eq!(engine.count(), 0);
            let labels = [":::s0:c1,c2", ":::s0:c8,c9"].map(|l| l.parse().unwrap()).to_vec();
            assert_eq!(says(&engine), [Says::MultipleLabels { labels, reach: Reach::Enforced }]);
            assert_eq!(says(&engine)[0].reason(), Some("MultipleSELinuxLabels"));
        }
    }

    #[test]
    fn options_that_say_nothing_are_a_label_of_their_own_beside_another() {
        let empty = Some(SelinuxOptions::default());
        let engine = cluster(&[using(pod("a"), mounts(&[level(C1), empty.clone()]))]);
        assert!(matches!(says(&engine)[..], [Says::MultipleLabels { .. }]));
        assert_eq!(lines(&cluster(&[using(pod("a"), mounts(&[empty])), unlabelled("b")])), NOTHING);
    }

    #[test]
    fn one_volume_under_two_names_has_the_labels_of_both() {
        let mut a = using(labelled("a", C1), mounts(&[level(C8)]));
        a.volumes[1].name = "again".to_owned();
        assert!(matches!(says(&cluster(&[a]))[..], [Says::MultipleLabels { .. }]));
    }

    #[test]
    fn a_labelled_and_an_unlabelled_container_share_the_label_and_it_is_said() {
        let a = using(pod("a"), mounts(&[level(C1), None]));
        let engine = cluster(&[a.clone(), labelled("b", C1)]);
        assert_eq!(engine.count(), 0);
        assert_eq!(says(&engine), [Says::Unlabelled { label: ":::s0:c1,c2".parse().unwrap() }]);
        assert_eq!(says(&cluster(&[recursive(a)])), []);
    }

    #[test]
    fn a_privileged_containers_options_count_as_the_kubelet_counts_them_unless_told_otherwise() {
        let mut a = labelled("a", C1);
        a.volumes[0].mounts[0].privileged = true;
        let pods = [a, labelled("b", C1)];
        let engine = cluster(&pods);
        assert_eq!((engine.count(), says(&engine)), (0, vec![Says::PrivilegedOptions]));
        let rules = Rules { privileged: PrivilegedOptions::Ignored, ..Rules::default() };
        assert_eq!(cluster_with(rules, &[ReadWriteMany], &pods).count(), 2);
    }
}

mod told {
    use super::*;

    fn messages(engine: &Engine) -> Vec<(String, &'static str, String)> {
        let events = engine.records().map(|c| c.event());
        events.map(|e| (e.pod.to_string(), e.reason, e.message)).collect()
    }

    #[test]
    fn both_pods_of_one_namespace_are_told_of_each_other() {
        let engine = cluster(&[labelled("a", C1), labelled("b", C8)]);
        let rest = "where both are on one node, only one of them can have it";
        let says = |own, other, its| {
            format!(
                "SELinuxLabel {own:?} conflicts with pod {other} that uses the same volume as this pod with \
                 SELinuxLabel {its:?}: {rest}"
            )
        };
        let (c1, c8) = (":::s0:c1,c2", ":::s0:c8,c9");
        assert_eq!(
            messages(&engine),
            [
                ("shop/a".to_owned(), "SELinuxLabelConflict", says(c1, "b", c8)),
                ("shop/b".to_owned(), "SELinuxLabelConflict", says(c8, "a", c1)),
            ]
        );
        let uids: Vec<_> = engine.records().filter_map(|c| c.event().uid).collect();
        assert_eq!(uids, ["uid-a", "uid-b"]);
    }

    #[test]
    fn a_pod_of_another_namespace_stays_unnamed() {
        let engine = cluster(&[labelled("a", C1), labelled("bank/secret", C8)]);
        let (pod, reason, message) = &messages(&engine)[1];
        assert_eq!((pod.as_str(), *reason), ("bank/secret", "SELinuxLabelConflict"));
        assert!(message.contains("another pod") && message.contains("s0:c8,c9"), "{message}");
        for hidden in ["shop", "pod a", "c1,c2"] {
            assert!(!message.contains(hidden), "{message}");
        }
    }

    #[test]
    fn two_pods_that_differ_on_two_volumes_are_one_pair_of_records() {
        let twice = |name, of| {
            let mut pod = using(labelled(name, of), labelled(name, of).volumes[0].mounts.clone());
            pod.volumes[1].name = "second".to_owned();
            pod.volumes[1].source =
                PodVolumeSource::Inline { id: VolumeId::new("fc", "x"), source: VolumeSource::FibreChannel };
            pod
        };
        let engine = cluster(&[twice("a", C1), twice("b", C8)]);
        assert_eq!((engine.count(), engine.records().count()), (2, 2));
    }
}
