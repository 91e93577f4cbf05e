//! Limits, and the control group that has them.

use container::Resources;
use cri::HugepageLimit;
use runtime::spec::CgroupVersion;

use super::Wish;

const FIELD: &str = "linux.resources";

#[test]
fn what_is_not_said_is_not_limited() {
    let start = Wish::new().start();
    assert_eq!(start.cgroup.resources, Resources::default());
    assert_eq!(start.process.oom_score_adj, None);
    let mut wish = Wish::new();
    wish.resources();
    assert_eq!(wish.start().cgroup.resources, Resources::default());
    assert_eq!(wish.start().process.oom_score_adj, Some(0), "who speaks of limits means this, too");
}

#[test]
fn limits_are_handed_on() {
    let mut wish = Wish::new();
    let given = wish.resources();
    (given.cpu_period, given.cpu_quota, given.cpu_shares) = (100_000, 20_000, 1024);
    (given.memory_limit_in_bytes, given.memory_swap_limit_in_bytes) = (64 << 20, 96 << 20);
    (given.cpuset_cpus, given.cpuset_mems) = ("0-1".into(), "0".into());
    given.hugepage_limits = vec![HugepageLimit { page_size: "2MB".into(), limit: 4 << 20 }];
    given.oom_score_adj = -5;
    let start = wish.start();
    let expected = Resources {
        cpu_shares: Some(1024),
        cpu_quota: Some(20_000),
        cpu_period: Some(100_000),
        cpuset_cpus: Some("0-1".into()),
        cpuset_mems: Some("0".into()),
        memory: Some(64 << 20),
        memory_swap: Some(96 << 20),
        pids: None,
        hugepages: [("2MB".to_owned(), 4 << 20)].into(),
        unified: [].into(),
    };
    assert_eq!((start.cgroup.resources, start.process.oom_score_adj), (expected, Some(-5)));
}

#[test]
fn who_has_a_limit_of_memory_does_not_swap_unless_told_to() {
    let swap = |limits: bool, memory: i64, swap: i64| {
        let mut wish = Wish::new();
        wish.node.swap_limits = limits;
        (wish.resources().memory_limit_in_bytes, wish.resources().memory_swap_limit_in_bytes) =
            (memory, swap);
        wish
    };
    let found = |wish: Wish| wish.start().cgroup.resources.memory_swap;
    assert_eq!(found(swap(true, 100, 0)), Some(100));
    assert_eq!(found(swap(true, 100, 150)), Some(150));
    assert_eq!(found(swap(true, 100, -1)), Some(-1));
    assert_eq!(found(swap(true, 0, 0)), None);
    assert_eq!(found(swap(false, 100, 0)), None);
    assert_eq!(found(swap(false, 100, 100)), None);
    let field = format!("{FIELD}.memory_swap_limit_in_bytes");
    assert_eq!(swap(false, 100, 150).refused("cannot limit swap"), field);
    assert_eq!(swap(true, 100, 50).refused("less than"), field);
}

#[test]
fn processes_are_limited_by_the_caller_else_by_the_node() {
    let pids = |unified: Option<&str>, node: Option<i64>, version: CgroupVersion| {
        let mut wish = Wish::new();
        (wish.node.pids, wish.node.cgroups) = (node, version);
        if let Some(text) = unified {
            wish.resources().unified.insert("pids.max".into(), text.into());
        }
        wish
    };
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        let found = |unified, node| pids(unified, node, version).start().cgroup.resources;
        assert_eq!(found(None, Some(100)).pids, Some(100));
        assert_eq!(found(Some("7"), Some(100)).pids, Some(7));
        assert_eq!(found(Some("max"), Some(100)).pids, Some(-1));
        assert!(found(Some("7"), None).unified.is_empty());
        for wrong in ["-1", "many", ""] {
            let field = pids(Some(wrong), None, version).refused("neither a number");
            assert_eq!(field, format!("{FIELD}.unified[pids.max]"));
        }
    }
}

#[test]
fn files_of_the_unified_hierarchy_need_one() {
    let unified = |name: &str, version: CgroupVersion| {
        let mut wish = Wish::new();
        wish.node.cgroups = version;
        wish.resources().unified.insert(name.into(), "1".into());
        wish
    };
    let found = unified("memory.high", CgroupVersion::V2).start().cgroup.resources.unified;
    assert_eq!(found["memory.high"], "1");
    let field = |name: &str| format!("{FIELD}.unified[{name}]");
    assert_eq!(unified("memory.high", CgroupVersion::V1).refused("version 1"), field("memory.high"));
    for name in ["../memory.high", ".", ""] {
        assert_eq!(unified(name, CgroupVersion::V2).refused("no file"), field(name));
    }
}

#[test]
fn huge_pages_need_their_controller_unless_there_are_to_be_none() {
    let wish = |limits: &[u64]| {
        let mut wish = Wish::new();
        wish.node.hugepage_limits = false;
        let page = |limit: &u64| HugepageLimit { page_size: "2MB".into(), limit: *limit };
        wish.resources().hugepage_limits = limits.iter().map(page).collect();
        wish
    };
    assert!(wish(&[0]).start().cgroup.resources.hugepages.is_empty());
    assert_eq!(wish(&[0, 1]).refused("cannot limit huge pages"), format!("{FIELD}.hugepage_limits[1]"));
}

#[test]
fn numbers_that_are_none_are_refused() {
    let mut wish = Wish::new();
    wish.resources().cpu_shares = -1;
    assert_eq!(wish.refused("negative"), format!("{FIELD}.cpu_shares"));
    let mut wish = Wish::new();
    wish.resources().cpu_period = -1;
    assert_eq!(wish.refused("negative"), format!("{FIELD}.cpu_period"));
    let mut wish = Wish::new();
    wish.resources().cpu_quota = -1;
    assert_eq!(wish.start().cgroup.resources.cpu_quota, Some(-1), "which is unlimited");
}

#[test]
fn nobody_is_killed_later_than_we_may_say() {
    let score = |given: i64, lowest: Option<i32>| {
        let mut wish = Wish::new();
        wish.node.lowest_oom_score = lowest;
        wish.resources().oom_score_adj = given;
        wish
    };
    for (given, lowest, expected) in
        [(-997, None, -997), (-997, Some(-500), -500), (300, Some(-500), 300), (1000, None, 1000)]
    {
        assert_eq!(score(given, lowest).start().process.oom_score_adj, Some(expected));
    }
    for given in [-1001, 1001, i64::MAX] {
        assert_eq!(score(given, None).refused("between"), format!("{FIELD}.oom_score_adj"));
    }
}

#[test]
fn the_control_group_is_below_the_sandboxs() {
    let path = |parent: &str| {
        let mut wish = Wish::new();
        wish.place.cgroup_parent = parent.into();
        wish
    };
    for parent in ["/kubepods/pod1", "kubepods/pod1", "/kubepods/pod1/"] {
        assert_eq!(path(parent).start().cgroup.path, "/kubepods/pod1/c0ffee");
    }
    for (parent, cause) in [
        ("kubepods-pod1.slice", "systemd's form"),
        ("kubepods.slice:cri:x", "systemd's form"),
        ("", "no path"),
        ("/", "no path"),
        ("/a/../b", "no path"),
        ("/a//b", "no path"),
    ] {
        assert_eq!(path(parent).refused(cause), "sandbox_config.linux.cgroup_parent");
    }
}

#[test]
fn the_control_group_is_in_a_scope_of_the_sandboxs_slice_where_process_1_is_systemd() {
    let wish = |parent: &str| {
        let mut wish = Wish::new();
        wish.node.systemd = true;
        wish.place.cgroup_parent = parent.into();
        wish
    };
    let scope = "/kubepods.slice/kubepods-pod1.slice/wardlet-c0ffee.scope/container";
    for parent in ["kubepods-pod1.slice", "/kubepods.slice/kubepods-pod1.slice"] {
        assert_eq!(wish(parent).start().cgroup.path, scope);
    }
    assert_eq!(wish("/kubepods/pod1").start().cgroup.path, "/kubepods/pod1/c0ffee");
    for (parent, cause) in [
        ("kubepods.slice:cri:x", "systemd's form"),
        ("/elsewhere/kubepods-pod1.slice", "elsewhere"),
        ("kubepods--pod1.slice", "not the name of a slice"),
    ] {
        assert_eq!(wish(parent).refused(cause), "sandbox_config.linux.cgroup_parent");
    }
}
