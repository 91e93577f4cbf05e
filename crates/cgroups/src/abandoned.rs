use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The fewest characters of an ID that no other cgroup has by chance. Runtimes give their containers 64 hexadecimal digits.
const LEAST: usize = 32;

/// Kills the processes of a container that its runtime has lost track of: those in the cgroup that is named after its ID, or
/// below it, wherever the runtime has put it. Returns how many were found; they may still be exiting.
pub fn kill_abandoned(container: &str) -> usize {
    if container.len() < LEAST || !container.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return 0;
    }
    let found = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
        hold(pid, container)
    });
    let found: Vec<OwnedFd> = found.collect();
    for process in &found {
        // An error means that the process has exited already.
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
    found.len()
}

/// The process, if it is one of the container. Its cgroup is read while its pidfd is held and its PID is not reused.
fn hold(pid: i32, container: &str) -> Option<OwnedFd> {
    let of_container =
        || is_named(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?, container).then_some(());
    // Before any pidfd is opened: most processes are not the container's.
    of_container()?;
    let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    of_container().map(|()| process)
}

/// Whether a line of `/proc/PID/cgroup` has the directory `ID`, or `PREFIX-ID.scope` as systemd's driver names it.
fn is_named(lines: &str, container: &str) -> bool {
    let is_its = |part: &str| {
        let unit = part.strip_suffix(".scope").and_then(|unit| unit.strip_suffix(container));
        part == container || unit.is_some_and(|prefix| prefix.ends_with('-'))
    };
    lines.lines().any(|line| line.rsplit(':').next().is_some_and(|path| path.split('/').any(is_its)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "06ec4e4e2e467844e015d727716508b79654a4b86ec1f3d914da8d29705f2655";

    #[test]
    fn a_process_is_a_containers_by_a_part_of_its_path_only() {
        let is_its = |lines: &str| is_named(&lines.replace("ID", ID), ID);
        assert!(is_its("5:memory:/k8s.io/ID\n0::/\n"));
        assert!(is_its("0::/kubepods/besteffort/podx/ID/below\n"));
        assert!(is_its("0::/kubepods.slice/kubepods-podx.slice/cri-containerd-ID.scope\n"));
        assert!(!is_its("0::/k8s.io/aID\n"));
        assert!(!is_its("0::/k8s.io/cri-containerdID.scope\n"));
        assert!(!is_its("0::/user/ID.slice\n"));
        assert!(!is_its(""));
    }

    #[test]
    fn no_process_is_killed_for_an_id_that_could_be_another_name() {
        assert_eq!(["", "/", "user.slice", "..", "kubepods"].map(kill_abandoned), [0; 5]);
        assert_eq!(kill_abandoned(&"../".repeat(20)), 0);
    }
}
