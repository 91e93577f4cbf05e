//! Kernel settings that stop pods.

use census::HostRoot;

use crate::check::{Check, Desk, Evidence, Fault, Group};
use crate::sysctl::{self, AtLeast, MOUNT_PROC, Setting};

const DESK: Desk = Desk::new(Group::Kernel, Evidence::Files);

/// In the order of what a pod meets first.
pub(crate) fn checks(host_root: &HostRoot, pods: u64) -> Vec<Check> {
    let mut checks = vec![version(host_root)];
    checks.extend(namespaces(host_root, pods));
    checks.push(seccomp(host_root));
    checks.extend(USEFUL.iter().map(|setting| setting.check(DESK, host_root).useful()));
    checks.push(ptrace(host_root));
    checks.push(forwarding(host_root));
    checks
}

const USEFUL: &[AtLeast<'static>] = &[
    AtLeast {
        name: "fs.inotify.max_user_instances",
        least: 128,
        because: "programs that watch files fail with \"too many open files\" when all instances of their user are taken",
    },
    AtLeast {
        name: "fs.inotify.max_user_watches",
        least: 8192,
        because: "programs that watch files fail with \"no space left on device\" when all watches of their user are taken",
    },
    AtLeast {
        name: "kernel.pid_max",
        least: 32_768,
        because: "all processes and threads of all pods share these numbers: fork fails when they are taken",
    },
];

/// What a version is known for; a trial of the real call outweighs it, for kernels are patched.
fn version(host_root: &HostRoot) -> Check {
    let need = "kernel 5.19 or newer (6.3 for volumes in memory)";
    let path = host_root.path("/proc/sys/kernel/osrelease");
    let Ok(text) = std::fs::read_to_string(&path) else {
        let cause = format!("{} cannot be read", path.display());
        return DESK.open(need, Fault::new(cause, MOUNT_PROC)).useful();
    };
    let release = text.trim().to_owned();
    match parse(&release) {
        Some(version) if version >= (6, 3) => DESK.holds(need, release).useful(),
        Some(version) if version >= (5, 19) => {
            let cause = "a tmpfs can be idmapped from 6.3 on: until then emptyDir in memory, secrets and tokens are \
                         owned by translated IDs instead";
            DESK.fails(need, release, Fault::new(cause, UPGRADE)).useful()
        }
        Some(_) => {
            let cause =
                "overlay layers can be idmapped from 5.19 on: until then images are copied for each pod";
            DESK.fails(need, release, Fault::new(cause, UPGRADE)).useful()
        }
        None => DESK.open(need, Fault::new(format!("{release:?} is no version"), UPGRADE)).useful(),
    }
}

const UPGRADE: &str = "boot a newer kernel of your distribution; on Debian: apt-get install -t bookworm-backports linux-image-amd64";

fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Every pod takes one of each; they count against the limit of the user that makes them.
fn namespaces(host_root: &HostRoot, pods: u64) -> Vec<Check> {
    let because = format!(
        "each of {pods} pods takes at least one: making one more fails with \"no space left on device\", though no disk is full"
    );
    ["mnt", "net", "pid", "ipc", "uts", "cgroup"]
        .map(|kind| {
            let name = format!("user.max_{kind}_namespaces");
            AtLeast { name: &name, least: pods, because: &because }.check(DESK, host_root)
        })
        .into()
}

fn seccomp(host_root: &HostRoot) -> Check {
    let need = "the kernel filters system calls (seccomp)";
    match std::fs::read_to_string(host_root.path("/proc/sys/kernel/seccomp/actions_avail")) {
        Ok(actions) if actions.split_whitespace().any(|action| action == "errno") => DESK.holds(need, "yes"),
        Ok(actions) => DESK.fails(
            need,
            actions.trim().to_owned(),
            Fault::new(
                "the kernel has no filters that answer with an error: no profile can be loaded",
                NO_SECCOMP,
            ),
        ),
        Err(_) if host_root.path("/proc/sys/kernel/osrelease").exists() => {
            let cause =
                "the kernel was built without CONFIG_SECCOMP_FILTER: pods with a profile do not start";
            DESK.fails(need, "no", Fault::new(cause, NO_SECCOMP))
        }
        Err(e) => DESK.open(need, Fault::new(format!("/proc/sys cannot be read: {e}"), MOUNT_PROC)),
    }
}

const NO_SECCOMP: &str = "boot a kernel with CONFIG_SECCOMP_FILTER=y";

/// containerd makes a sandbox's user namespace with a child that it traces.
fn ptrace(host_root: &HostRoot) -> Check {
    const NAME: &str = "kernel.yama.ptrace_scope";
    let need = format!("{NAME} is below 3");
    let check = match sysctl::read(host_root, NAME) {
        Setting::Is(scope) if scope >= 3 => {
            let cause = "nothing may be traced until the next boot, and containerd traces the process that makes a \
                         pod's user namespace: such pods do not start";
            let fix = format!(
                "write {NAME}=2 to the file under /etc/sysctl.d that sets it, then reboot: it cannot be lowered"
            );
            DESK.fails(need, scope.to_string(), Fault::new(cause, fix))
        }
        Setting::Is(scope) => DESK.holds(need, scope.to_string()),
        Setting::Absent => DESK.holds(need, "no such limit"),
        Setting::Unknown(cause) => DESK.open(need, Fault::new(cause, MOUNT_PROC)),
    };
    check.useful()
}

fn forwarding(host_root: &HostRoot) -> Check {
    const NAME: &str = "net.ipv4.ip_forward";
    let setting = AtLeast {
        name: NAME,
        least: 1,
        because: "the node passes nothing on between a pod's own network and any other",
    };
    setting.check(DESK, host_root).useful()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_up_to_its_minor_version() {
        assert_eq!(parse("6.18.44"), Some((6, 18)));
        assert_eq!(parse("5.19-rc1+"), Some((5, 19)));
        assert_eq!(parse("6.1.0-28-amd64"), Some((6, 1)));
        assert_eq!(parse("six"), None);
    }
}
