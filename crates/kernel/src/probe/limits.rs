use std::fs;

use serde::Serialize;

/// The settings of this node that can keep user namespaces from being made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// How many user namespaces each user may have: `user.max_user_namespaces`.
    pub per_user: Option<u64>,
    /// Whether users without privilege may make any, where the distribution's kernel has a switch for
    /// it: `kernel.unprivileged_userns_clone`. Root is not concerned.
    pub unprivileged: Option<bool>,
    /// Whether AppArmor keeps programs without a profile from using theirs:
    /// `kernel.apparmor_restrict_unprivileged_userns`. Root is not concerned.
    pub apparmor: Option<bool>,
    /// Whether this process is in a nested user namespace, so that limits of the outer ones count, too.
    pub nested: bool,
    /// Whether a seccomp filter applies to this process, as in a container.
    pub filtered: bool,
}

/// What stopped a user namespace from being made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Stopped {
    /// No user may have any here.
    LimitOfZero,
    /// This user has as many as it may have; another user could make one.
    UserHasAll,
    /// No user can make one, although our own limit is none: a user namespace around ours is at its
    /// limit, or this one is too deep.
    LimitAround,
    /// The kernel has no user namespaces.
    NoSuchThing,
    /// Forbidden by a setting or a filter.
    Forbidden,
}

impl Limits {
    /// As they are now.
    #[must_use]
    pub fn read() -> Self {
        let switch = |name: &str| number(name).map(|value| value != 0);
        Self {
            per_user: number("/proc/sys/user/max_user_namespaces"),
            unprivileged: switch("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor: switch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            nested: fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !is_whole(&map)),
            filtered: fs::read_to_string("/proc/thread-self/status").is_ok_and(|status| is_filtered(&status)),
        }
    }

    /// The settings that forbid something, as one would set them.
    pub(super) fn forbidding(&self) -> Vec<&'static str> {
        let settings = [
            (self.unprivileged == Some(false), "kernel.unprivileged_userns_clone=0"),
            (self.apparmor == Some(true), "kernel.apparmor_restrict_unprivileged_userns=1"),
            (self.filtered, "a seccomp filter on this process"),
        ];
        settings.into_iter().filter(|(forbids, _)| *forbids).map(|(_, name)| name).collect()
    }
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The first user namespace of all maps every ID to itself.
fn is_whole(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn is_filtered(status: &str) -> bool {
    status.lines().filter_map(|line| line.strip_prefix("Seccomp:")).any(|mode| mode.trim() == "2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_user_namespace_is_known_by_its_map() {
        assert!(is_whole("         0          0 4294967295\n"));
        assert!(!is_whole("         0          0      65536\n"));
        assert!(!is_whole("         0     100000 4294901760\n"));
    }

    #[test]
    fn a_filter_is_known_by_its_mode() {
        assert!(is_filtered("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered("Name:\tx\nSeccomp:\t0\n"));
    }
}
