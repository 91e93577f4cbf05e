//! What the running kernel does when it is really asked.

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use kernel::NamespaceKind;
use kernel::namespace;
use kernel::probe::{self, Answer};

use crate::check::{Check, Desk, Evidence, Fault, Group};

pub(crate) const USERS: Desk = Desk::new(Group::UserNamespaces, Evidence::Trial);
pub(crate) const FILES: Desk = Desk::new(Group::Filesystems, Evidence::Trial);
const KERNEL: Desk = Desk::new(Group::Kernel, Evidence::Trial);

pub(crate) fn only_root() -> Fault {
    Fault::new("only root can try it", "sudo wardlet doctor")
}

/// A check from a trial; `found` says what was seen.
pub(crate) fn check<T>(desk: Desk, need: &str, answer: Answer<T>, found: impl FnOnce(T) -> String) -> Check {
    match answer {
        Answer::Works(seen) => desk.holds(need, found(seen)),
        Answer::Refused(refusal) => {
            let fix = refusal.fix.unwrap_or_else(|| NO_FIX.to_owned());
            let said = refusal.error.to_string();
            let cause = if refusal.cause == said { said } else { format!("{}: {said}", refusal.cause) };
            desk.fails(need, "no", Fault::new(cause, fix))
        }
    }
}

const NO_FIX: &str = "boot a newer kernel, or run this outside of the container that it is in";

/// User namespaces: any at all, and counted against the pod's own user.
pub(crate) fn user_namespaces() -> Vec<Check> {
    let any = check(USERS, "user namespaces can be made", probe::user_namespaces(), |limits| {
        if limits.nested { "yes, inside of another".to_owned() } else { "yes".to_owned() }
    });
    if !any.holds {
        return vec![any];
    }
    let need = "they count against the pod's own user, not all against root";
    vec![any, check(USERS, need, probe::charged_user_namespaces(), |()| "yes".to_owned()).useful()]
}

/// In a network namespace that goes with the trial.
pub(crate) fn guarded_addresses() -> Check {
    let need = "pods of the built-in bridge are kept from taking each other's addresses";
    let tried = namespace::make(None, &[NamespaceKind::Net], None).map_err(|error| error.to_string());
    let tried = tried.and_then(|made| {
        let Some(made) = made.first() else { return Err("no network namespace was made".to_owned()) };
        let path = format!("/proc/self/fd/{}", made.as_fd().as_raw_fd());
        network::try_guard(Path::new(&path)).map_err(|error| error.to_string())
    });
    let check = match tried {
        Ok(()) => KERNEL.holds(need, "yes"),
        Err(cause) => KERNEL.fails(need, "no", Fault::new(cause, NO_GUARD)),
    };
    check.useful()
}

const NO_GUARD: &str = "boot a kernel with CONFIG_NF_TABLES_BRIDGE, or have CNI plugins make the pods' networks \
                        (--network cni); until then a pod that may change its own network can pretend to be another one";

const OOM: &str = "/proc/self/oom_score_adj";

/// The kubelet asks for scores below its own for pods that are killed last. Raising it back is always allowed.
pub(crate) fn oom_score(spared: Spared) -> Check {
    let need = "a process can lower its oom_score_adj";
    let Some(now) = std::fs::read_to_string(OOM).ok().and_then(|text| text.trim().parse::<i32>().ok()) else {
        return KERNEL
            .open(need, Fault::new(format!("{OOM} cannot be read"), "mount -t proc proc /proc"))
            .useful();
    };
    let lowered = now > -1000 && std::fs::write(OOM, (now - 1).to_string()).is_ok();
    let restored = !lowered || std::fs::write(OOM, now.to_string()).is_ok();
    let check = match (lowered || now == -1000, restored, spared) {
        (true, true, _) => KERNEL.holds(need, "yes"),
        (true, false, _) => KERNEL.holds(need, "yes, once"),
        (false, _, Spared::ByRuntime) => {
            KERNEL.holds(need, "no, but the runtime is configured to go without")
        }
        (false, _, Spared::Not) => {
            let cause = "CAP_SYS_RESOURCE is missing: containerd and runc cannot start containers with a negative oom_score_adj";
            let fix = "give the node CAP_SYS_RESOURCE, or set restrict_oom_score_adj = true in containerd's CRI \
                       configuration and oomScoreAdj: 0 in the kubelet's";
            KERNEL.fails(need, "no", Fault::new(cause, fix))
        }
    };
    check.useful()
}

/// Whether the runtime asks for scores that it cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spared {
    ByRuntime,
    Not,
}
