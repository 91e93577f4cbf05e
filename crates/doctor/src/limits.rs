//! Settings that can stop user namespaces.

use census::HostRoot;

use crate::check::{Check, Desk, Evidence, Fault, Group};
use crate::sysctl::{self, MOUNT_PROC, Setting};

const DESK: Desk = Desk::new(Group::UserNamespaces, Evidence::Files);

pub(crate) fn checks(host_root: &HostRoot, pods: u64) -> Vec<Check> {
    let mut checks = vec![user_namespaces(host_root, pods)];
    checks.extend(SWITCHES.iter().map(|switch| switch.check(host_root)));
    checks
}

/// The kernel's default depends on memory; this is more than any node needs.
const PLENTY: u64 = 15_000;

fn user_namespaces(host_root: &HostRoot, pods: u64) -> Check {
    const NAME: &str = "user.max_user_namespaces";
    let need = format!("{NAME} leaves room for {pods} pods");
    let fix = sysctl::set(NAME, PLENTY);
    match sysctl::read(host_root, NAME) {
        Setting::Is(0) => {
            let cause = format!(
                "{NAME} is 0: no user namespace can be made, and the kernel says \"no space left on device\" (ENOSPC), \
                 though no disk is full"
            );
            DESK.fails(need, "0", Fault::new(cause, fix))
        }
        Setting::Is(limit) if limit < pods => {
            let cause = format!(
                "a user may have {limit}: runtimes that make all pods' as root start {limit} pods at most, then the \
                 kernel says \"no space left on device\" (ENOSPC)"
            );
            DESK.fails(need, limit.to_string(), Fault::new(cause, fix)).useful()
        }
        Setting::Is(limit) => DESK.holds(need, limit.to_string()),
        Setting::Absent => {
            let cause = "the kernel was built without user namespaces";
            DESK.fails(need, "no such setting", Fault::new(cause, "boot a kernel with CONFIG_USER_NS=y"))
        }
        Setting::Unknown(cause) => DESK.open(need, Fault::new(cause, MOUNT_PROC)),
    }
}

/// A setting that forbids user namespaces to those without privileges, at one of its values. The node's own
/// programs have them.
struct Switch {
    name: &'static str,
    forbids: u64,
}

const SWITCHES: [Switch; 2] = [
    Switch { name: "kernel.unprivileged_userns_clone", forbids: 0 },
    Switch { name: "kernel.apparmor_restrict_unprivileged_userns", forbids: 1 },
];

impl Switch {
    fn check(&self, host_root: &HostRoot) -> Check {
        let Self { name, forbids } = self;
        let need = format!("{name} forbids nothing");
        let check = match sysctl::read(host_root, name) {
            Setting::Is(value) if value == *forbids => {
                let cause = "programs without privileges may make no user namespaces: pods that root starts have \
                             theirs, but rootless tools on the node and nested ones inside pods do not work";
                let fix = sysctl::set(name, 1 - forbids);
                DESK.fails(need, value.to_string(), Fault::new(cause, fix))
            }
            Setting::Is(value) => DESK.holds(need, value.to_string()),
            Setting::Absent => DESK.holds(need, "no such setting"),
            Setting::Unknown(cause) => DESK.open(need, Fault::new(cause, MOUNT_PROC)),
        };
        check.useful()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Severity, Verdict};

    /// A host with these settings.
    fn found(settings: &[(&str, &str)]) -> Vec<Check> {
        let dir = tempfile::tempdir().unwrap();
        for (name, value) in settings.iter().chain(&[("kernel.osrelease", "6.1.0")]) {
            let path = dir.path().join("proc/sys").join(name.replace('.', "/"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, value).unwrap();
        }
        checks(&HostRoot::new(dir.path()), 110)
    }

    #[test]
    fn a_limit_of_zero_stops_all_pods_and_a_low_one_some() {
        let limit = |value| found(&[("user.max_user_namespaces", value)]).remove(0);
        let zero = limit("0\n");
        assert_eq!((zero.verdict, zero.severity), (Verdict::Fails, Severity::Needed));
        assert!(zero.cause.unwrap().contains("ENOSPC"));
        assert!(zero.fix.unwrap().starts_with("sysctl -w user.max_user_namespaces=15000 && "));
        let low = limit("100\n");
        assert_eq!((low.verdict, low.severity), (Verdict::Fails, Severity::Useful));
        assert_eq!(limit("110\n").verdict, Verdict::Holds);
    }

    #[test]
    fn switches_of_distributions_concern_only_the_unprivileged() {
        let checks = found(&[
            ("user.max_user_namespaces", "1000"),
            ("kernel.unprivileged_userns_clone", "0"),
            ("kernel.apparmor_restrict_unprivileged_userns", "1"),
        ]);
        for (check, value) in checks.iter().skip(1).zip([1, 0]) {
            assert_eq!((check.verdict, check.severity), (Verdict::Fails, Severity::Useful));
            assert!(check.fix.as_ref().unwrap().contains(&format!("={value} && ")), "{check:?}");
        }
        assert!(found(&[("user.max_user_namespaces", "1000")]).iter().all(|check| check.holds));
    }

    #[test]
    fn what_cannot_be_read_is_open() {
        let nowhere = HostRoot::new("/no/such/root");
        assert!(checks(&nowhere, 1).iter().all(|check| check.verdict == Verdict::Open));
    }
}
