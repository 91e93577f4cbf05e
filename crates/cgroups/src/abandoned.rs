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
    kill_all(|pid| {
        fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|lines| is_named(&lines, container))
    })
}

/// Kills the shim of a sandbox, containerd's process that has the sandbox's containers. containerd then cleans up what the shim
/// had, also a task whose end the shim has missed. Returns how many were found. A process in another user namespace is
/// none, whatever its arguments are.
pub fn kill_shim(sandbox: &str) -> usize {
    if sandbox.len() < LEAST {
        return 0;
    }
    let Ok(host) = fs::read_link("/proc/self/ns/user") else { return 0 };
    kill_all(|pid| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_here = || fs::read_link(format!("/proc/{pid}/ns/user")).is_ok_and(|users| users == host);
        is_shim(&arguments, sandbox) && is_here()
    })
}

/// Kills all processes of which this holds. It is asked again while the process's pidfd is held and its PID is not reused.
fn kill_all(is_wanted: impl Fn(i32) -> bool) -> usize {
    let hold = |pid: i32| {
        // Before any pidfd is opened: most processes are others.
        let process = is_wanted(pid).then(|| pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok())??;
        is_wanted(pid).then_some(process)
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let found: Vec<OwnedFd> = numbers.filter_map(hold).collect();
    for process in &found {
        // An error means that the process has exited already.
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
    found.len()
}

/// Whether these are the arguments of the shim of a sandbox.
fn is_shim(arguments: &[u8], sandbox: &str) -> bool {
    let words: Vec<&[u8]> = arguments.split(|byte| *byte == 0).collect();
    let program = words.first().and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    program.is_some_and(|name| name.starts_with(b"containerd-shim-"))
        && words.windows(2).any(|pair| pair == [b"-id".as_slice(), sandbox.as_bytes()])
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
    fn a_shim_is_known_by_its_program_and_the_id_of_its_sandbox() {
        let is_it = |words: &[&str]| is_shim(words.join("\0").as_bytes(), ID);
        assert!(is_it(&["/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", ID, ""]));
        assert!(is_it(&["containerd-shim-runsc-v1", "-id", ID]));
        assert!(!is_it(&["/usr/bin/containerd-shim-runc-v2", "-id", "another"]));
        assert!(!is_it(&["/usr/bin/containerd-shim-runc-v2", ID]));
        assert!(!is_it(&["containerd", "-id", ID]));
        assert!(!is_it(&["sh", "containerd-shim-runc-v2", "-id", ID]));
        assert!(!is_it(&[]));
        assert_eq!(kill_shim(""), 0);
    }

    #[test]
    fn no_process_is_killed_for_an_id_that_could_be_another_name() {
        assert_eq!(["", "/", "user.slice", "..", "kubepods"].map(kill_abandoned), [0; 5]);
        assert_eq!(kill_abandoned(&"../".repeat(20)), 0);
    }
}
