//! Whether a program that an isolated pod leaves in a hostPath volume has any power on the host.

use node::Node;
use node::mounts::Mounts;
use node::setuid::honours_setuid;
use plan::HostSetuid;

use crate::check::{Check, Desk, Evidence, Fault, Group};

const DESK: Desk = Desk::new(Group::Filesystems, Evidence::Files);
const NEED: &str = "programs that isolated pods leave in hostPath volumes have no power on the host";
/// How many mounts are named.
const NAMED: usize = 5;

pub(crate) fn checks(node: &Node) -> Vec<Check> {
    let mounts = Mounts::of_host(node.host_root());
    if mounts.table().is_none() {
        // A host root without the processes of its host: there are no mounts to speak of.
        return Vec::new();
    }
    let kept = mounts.kept_on();
    let open = kept.values().flatten().filter(|mount| honours_setuid(mount) && !mount.read_only());
    let mut points: Vec<String> = open.map(|mount| mount.point.display().to_string()).collect();
    points.sort();
    points.dedup();
    vec![check(&points, node.config.settings.policy.volumes.host_setuid).useful()]
}

/// `open` is where special bits of files count.
fn check(open: &[String], policy: HostSetuid) -> Check {
    if open.is_empty() {
        return DESK.holds(NEED, "every filesystem that keeps files is mounted nosuid");
    }
    if policy == HostSetuid::Refuse {
        return DESK.holds(NEED, "policy.volumes.hostSetuid is refuse: only nosuid mounts are given to them");
    }
    let more = open.len().saturating_sub(NAMED);
    let named: Vec<&str> = open.iter().take(NAMED).map(String::as_str).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let cause = "an idmapped hostPath shows the pod's root as the host's: set-user-ID and set-group-ID bits and file \
                 capabilities that a pod sets there count on the host";
    let fix = "keep directories for hostPath volumes on a filesystem that is mounted nosuid, or set policy.volumes.hostSetuid \
               to refuse in /etc/wardlet/config.yaml";
    DESK.fails(NEED, format!("not nosuid: {}{more}", named.join(", ")), Fault::new(cause, fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_where_nothing_counts_or_the_policy_refuses() {
        let open = ["/".to_owned()];
        assert!(check(&[], HostSetuid::Warn).holds);
        assert!(check(&open, HostSetuid::Refuse).holds);
        let fails = check(&open, HostSetuid::Warn);
        assert!(!fails.holds && fails.found.contains('/') && fails.fix.is_some(), "{fails:?}");
        let many: Vec<String> = (0..9).map(|n| format!("/m{n}")).collect();
        assert!(check(&many, HostSetuid::Warn).found.ends_with("and 4 more"));
    }
}
