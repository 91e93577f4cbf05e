//! What holds on this node, found by looking.

use std::fs;

use cgroups::{Groups, Version};
use selinux::{HostDefaults, Label};
use tracing::{info, warn};

use crate::settings::Settings;
use crate::spec::{AppArmor, CgroupVersion, NodeFacts};

/// The bit of CAP_SYS_RESOURCE.
const SYS_RESOURCE: u32 = 24;
const HUGEPAGES: &str = "hugetlb";

pub(crate) fn gather(settings: &Settings, groups: &Groups) -> NodeFacts {
    let selinux = selinux();
    NodeFacts {
        hostname: text("/proc/sys/kernel/hostname").unwrap_or_else(|| "localhost".to_owned()),
        systemd: groups.has_systemd(),
        cgroups: match groups.version() {
            Version::V2 => CgroupVersion::V2,
            _ => CgroupVersion::V1,
        },
        swap_limits: groups.limits_swap(),
        hugepage_limits: limits_hugepages(groups),
        // They have ours.
        rlimits: vec![],
        lowest_oom_score: lowest_oom_score(),
        pids: None,
        owners: settings.owners,
        apparmor: apparmor(),
        privileged_label: selinux.as_ref().and_then(privileged_label),
        selinux,
    }
}

/// Beside hierarchies of version 1, engines set no limit in the unified one, and refuse what only it has.
fn limits_hugepages(groups: &Groups) -> bool {
    let own = text("/proc/self/cgroup").unwrap_or_default();
    groups.has(HUGEPAGES) && (groups.version() == Version::V2 || of_its_own(HUGEPAGES, &own))
}

/// Whether the controller is in a hierarchy of version 1, by the lines of a `/proc/PID/cgroup`.
fn of_its_own(controller: &str, lines: &str) -> bool {
    let controllers = lines.lines().filter_map(|line| line.split(':').nth(1));
    controllers.flat_map(|names| names.split(',')).any(|name| name == controller)
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn may_raise_limits() -> bool {
    let status = text("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    bits >> SYS_RESOURCE & 1 == 1
}

/// The lowest `oom_score_adj` that containers can have here; `None` if they can have any.
fn lowest_oom_score() -> Option<i32> {
    let lowest = own_oom_score().filter(|_| !may_raise_limits())?;
    info!(
        "CAP_SYS_RESOURCE is missing: containers that ask for an oom_score_adj below {lowest} get {lowest}"
    );
    Some(lowest)
}

fn own_oom_score() -> Option<i32> {
    text("/proc/self/oom_score_adj")?.parse().ok()
}

fn apparmor() -> Option<AppArmor> {
    let enabled = text("/sys/module/apparmor/parameters/enabled")? == "Y";
    let profiles = text("/sys/kernel/security/apparmor/profiles").unwrap_or_default();
    let name = |line: &str| line.rsplit_once(" (").map(|(name, _)| name.to_owned());
    enabled.then(|| AppArmor { default: None, loaded: profiles.lines().filter_map(name).collect() })
}

/// The label of privileged containers, if the kernel's policy knows it: older policies have no such type.
fn privileged_label(host: &HostDefaults) -> Option<Label> {
    let label = host.privileged_label().ok()?;
    fs::write("/sys/fs/selinux/context", label.to_string()).ok()?;
    Some(label)
}

/// The first contexts file that is there holds, as for other container runtimes.
fn selinux() -> Option<HostDefaults> {
    text("/sys/fs/selinux/enforce")?;
    let config = text("/etc/selinux/config").unwrap_or_default();
    let policy = config.lines().filter_map(|line| line.trim().strip_prefix("SELINUXTYPE=")).next_back();
    let of_policy =
        policy.map(|name| format!("/etc/selinux/{}/contexts/lxc_contexts", name.trim().trim_matches('"')));
    let candidates = [Some("/usr/share/containers/selinux/contexts".to_owned()), of_policy];
    let (path, found) =
        candidates.into_iter().flatten().find_map(|path| Some((path.clone(), text(&path)?)))?;
    match found.parse() {
        Ok(defaults) => Some(defaults),
        Err(error) => {
            warn!("{path}: {error}: containers are not labelled");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kubelet says 0 for every size of huge pages: on such a host each of its containers failed to start.
    #[test]
    fn a_controller_of_the_unified_hierarchy_is_none_of_version_1() {
        assert!(!of_its_own(HUGEPAGES, "10:cpu,cpuacct:/a\n1:name=systemd:/\n0::/hugetlb\n"));
        assert!(of_its_own(HUGEPAGES, "11:hugetlb:/\n0::/\n"));
        assert!(of_its_own("cpuacct", "10:cpu,cpuacct:/a\n"));
    }
}
