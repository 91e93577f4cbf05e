//! Cgroups: which version, and whether what limits pods is there.

use std::path::Path;

use census::HostRoot;

use crate::check::{Check, Desk, Evidence, Fault, Group};

const DESK: Desk = Desk::new(Group::Cgroups, Evidence::Files);
const TOP: &str = "/sys/fs/cgroup";

/// What a pod's requests and limits are made of.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

/// How the hierarchies are mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// One hierarchy, version 2.
    Unified,
    /// Controllers of version 1, with a hierarchy of version 2 beside them.
    Hybrid,
    /// Version 1 alone.
    Legacy,
    None,
}

pub(crate) fn checks(host_root: &HostRoot) -> Vec<Check> {
    let layout = layout(host_root);
    let mut checks = vec![version(layout)];
    if layout != Layout::None {
        checks.extend(CONTROLLERS.map(|controller| self::controller(host_root, layout, controller)));
    }
    checks
}

/// Detected by the files that only the root of a cgroup v2 hierarchy has.
fn layout(host_root: &HostRoot) -> Layout {
    let is_v2 = |at: &str| host_root.path(at).join("cgroup.controllers").exists();
    if is_v2(TOP) {
        return Layout::Unified;
    }
    let legacy = CONTROLLERS.iter().any(|name| legacy(host_root, name).is_some());
    match (legacy, is_v2("/sys/fs/cgroup/unified")) {
        (true, true) => Layout::Hybrid,
        (true, false) => Layout::Legacy,
        (false, _) => Layout::None,
    }
}

fn version(layout: Layout) -> Check {
    const NEED: &str = "cgroups are version 2";
    const FIX: &str = "add systemd.unified_cgroup_hierarchy=1 to the kernel's command line and reboot";
    let cause = "a kubelet from 1.35 on does not start on version 1 unless failCgroupV1 is false, and containerd gives \
                 version 1 up";
    match layout {
        Layout::Unified => DESK.holds(NEED, "version 2").useful(),
        Layout::Hybrid => DESK
            .fails(NEED, "hybrid: version 1 with a hierarchy of version 2 beside it", Fault::new(cause, FIX))
            .useful(),
        Layout::Legacy => DESK.fails(NEED, "version 1", Fault::new(cause, FIX)).useful(),
        Layout::None => {
            let cause = format!("nothing is mounted at {TOP}: pods can be neither limited nor counted");
            DESK.fails(
                "cgroups are mounted",
                "none",
                Fault::new(cause, format!("mount -t cgroup2 none {TOP}")),
            )
        }
    }
}

fn controller(host_root: &HostRoot, layout: Layout, name: &str) -> Check {
    let need = format!("pods can be limited by the {name} controller");
    let missing = |cause: String, fix: String| DESK.fails(need.clone(), "no", Fault::new(cause, fix));
    if layout != Layout::Unified {
        return match legacy(host_root, name) {
            Some(place) => DESK.holds(need, format!("yes, at {place}")),
            None => missing(
                format!("{TOP} has no hierarchy with {name}"),
                format!("mkdir -p {TOP}/{name} && mount -t cgroup -o {name} {name} {TOP}/{name}"),
            ),
        };
    }
    let has = |file: &str| {
        let text = std::fs::read_to_string(host_root.path(TOP).join(file)).unwrap_or_default();
        text.split_whitespace().any(|word| word == name)
    };
    match (has("cgroup.controllers"), has("cgroup.subtree_control")) {
        (true, true) => DESK.holds(need, "yes"),
        (true, false) => missing(
            format!("{name} is there, and no cgroup below the top may use it"),
            format!("echo +{name} > {TOP}/cgroup.subtree_control"),
        ),
        (false, _) => missing(
            format!("the kernel gives this node's top cgroup no {name}"),
            format!(
                "remove cgroup_disable={name} from the kernel's command line, or delegate it to the container that this node runs in"
            ),
        ),
    }
}

/// Where a controller of version 1 is mounted, alone or with others, as in `cpu,cpuacct`.
fn legacy(host_root: &HostRoot, name: &str) -> Option<String> {
    let top = host_root.path(TOP);
    let has = |names: &str| names.split(',').any(|one| one == name);
    let entries = std::fs::read_dir(top).ok()?.flatten();
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    // A directory without a hierarchy on it is empty.
    let mounted = |names: &String| host_root.path(Path::new(TOP).join(names)).join("cgroup.procs").exists();
    names.into_iter().find(|names| has(names) && mounted(names)).map(|names| format!("{TOP}/{names}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;

    /// A host with these files, each with its text.
    fn found(files: &[(&str, &str)]) -> Vec<(Verdict, String)> {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join("sys/fs/cgroup").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        checks(&HostRoot::new(dir.path())).into_iter().map(|check| (check.verdict, check.found)).collect()
    }

    #[test]
    fn a_controller_that_is_not_delegated_limits_nobody() {
        let found =
            found(&[("cgroup.controllers", "cpu memory pids"), ("cgroup.subtree_control", "memory pids")]);
        let verdicts: Vec<Verdict> = found.iter().map(|(verdict, _)| *verdict).collect();
        assert_eq!(verdicts, [Verdict::Holds, Verdict::Fails, Verdict::Holds, Verdict::Holds]);
    }

    #[test]
    fn a_hybrid_host_has_its_controllers_in_version_1() {
        let found = found(&[
            ("cpu,cpuacct/cgroup.procs", ""),
            ("memory/cgroup.procs", ""),
            ("pids/other", ""),
            ("unified/cgroup.controllers", "hugetlb"),
        ]);
        assert!(found[0].1.starts_with("hybrid"), "{found:?}");
        assert_eq!(found[1], (Verdict::Holds, "yes, at /sys/fs/cgroup/cpu,cpuacct".to_owned()));
        assert_eq!(found[2].0, Verdict::Holds);
        assert_eq!(found[3].0, Verdict::Fails, "an empty directory is no hierarchy");
    }

    #[test]
    fn a_host_without_cgroups_limits_nothing() {
        assert_eq!(found(&[]), [(Verdict::Fails, "none".to_owned())]);
    }
}
