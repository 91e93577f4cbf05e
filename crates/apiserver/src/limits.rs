//! What the kubelet's configuration says about containers and logs, as the agent's options.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use ::node::kubelet::{KubeletConfig, NodeFlags};
use agent::{LogChecks, LogRotation, LogSize, Options, RotatedLogs};

/// Swap is on, and the configuration forbids it.
#[derive(Debug, thiserror::Error)]
#[error("swap is on ({0}), and failSwapOn is true")]
pub struct SwapError(String);

impl SwapError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        "turn it off with swapoff, or set failSwapOn: false; pods get no swap either way"
    }
}

/// Refuses a node with swap, unless the configuration allows it.
pub(crate) fn check_swap(config: &KubeletConfig, host_root: &Path) -> Result<(), SwapError> {
    // Without this file the kernel has no swap.
    let swaps = fs::read_to_string(host_root.join("proc/swaps")).unwrap_or_default();
    let first = swaps.lines().nth(1).and_then(|line| line.split_whitespace().next());
    match first.filter(|_| config.fail_swap_on) {
        Some(name) => Err(SwapError(name.to_owned())),
        None => Ok(()),
    }
}

/// The kernel cannot do what the configuration says about containers that run out of memory.
#[derive(Debug, thiserror::Error)]
#[error("this node has cgroup v1, and singleProcessOOMKill is false")]
pub struct OomKillError;

impl OomKillError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        "leave singleProcessOOMKill out: cgroup v1 kills one process of a container, cgroup v2 all of them by default"
    }
}

/// Refuses `singleProcessOOMKill: false` on cgroup v1.
pub(crate) fn check_oom_kill(config: &KubeletConfig, host_root: &Path) -> Result<(), OomKillError> {
    let is_v2 = host_root.join("sys/fs/cgroup/cgroup.controllers").exists();
    if config.single_process_oom_kill == Some(false) && !is_v2 { Err(OomKillError) } else { Ok(()) }
}

/// Sets the limits of calls and logs and the back-off of restarts.
pub(crate) fn apply(config: &KubeletConfig, flags: &NodeFlags, options: &mut Options) {
    options.logs = LogRotation {
        // A negative size: logs are not rotated. What is too small for a log was refused with the configuration.
        max_size: config.container_log_max_size.to_string().parse().unwrap_or(LogSize::UNLIMITED),
        max_files: config.container_log_max_files.to_string().parse().unwrap_or_default(),
        names: RotatedLogs::OfKubelet,
    };
    options.log_checks = LogChecks {
        interval: config.container_log_monitor_interval.to_std(),
        workers: NonZeroU32::new(config.container_log_max_workers),
    };
    options.settings.dead_kept = flags.maximum_dead_per_container;
    options.settings.dead_for = flags.minimum_container_ttl;
    options.dead_containers = flags.maximum_dead.map(u64::from);
    options.runtime_timeout = Some(config.runtime_request_timeout.to_std());
    options.pod_logs_dir = Some(config.pod_logs_dir.clone());
    options.settings.backoff_cap = config.crash_loop_back_off.max_container_restart_period.to_std();
    options.settings.backoff_initial = options.settings.backoff_initial.min(options.settings.backoff_cap);
}

#[cfg(test)]
mod tests {
    use ::node::kubelet::KubeletFlags;

    use super::*;

    fn config(arguments: &[&str], fields: &str) -> KubeletConfig {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        let kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        fs::write(&file, format!("{kind}{fields}")).unwrap();
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        KubeletConfig::load(Some(&file), None, &KubeletFlags::parse(&arguments).unwrap()).unwrap().config
    }

    #[test]
    fn cgroup_v1_cannot_kill_all_processes_of_a_container() {
        let root = tempfile::tempdir().unwrap();
        let check =
            |fields: &str| check_oom_kill(&config(&[], fields), root.path()).map_err(|e| e.to_string());
        assert_eq!(check(""), Ok(()));
        assert_eq!(check("singleProcessOOMKill: true\n"), Ok(()));
        let refused = "this node has cgroup v1, and singleProcessOOMKill is false".to_owned();
        assert_eq!(check("singleProcessOOMKill: false\n"), Err(refused));
        fs::create_dir_all(root.path().join("sys/fs/cgroup")).unwrap();
        fs::write(root.path().join("sys/fs/cgroup/cgroup.controllers"), "memory\n").unwrap();
        assert_eq!(check("singleProcessOOMKill: false\n"), Ok(()));
    }

    #[test]
    fn a_node_with_swap_is_refused_unless_it_is_allowed() {
        let root = tempfile::tempdir().unwrap();
        let config = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
            let flags = KubeletFlags::parse(&arguments).unwrap();
            KubeletConfig::load(None, None, &flags).unwrap().config
        };
        check_swap(&config(&[]), root.path()).unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        let head = "Filename\tType\tSize\tUsed\tPriority\n";
        fs::write(root.path().join("proc/swaps"), head).unwrap();
        check_swap(&config(&[]), root.path()).unwrap();
        fs::write(root.path().join("proc/swaps"), format!("{head}/dev/sda2 partition 1 0 -2\n")).unwrap();
        let error = check_swap(&config(&[]), root.path()).unwrap_err();
        assert_eq!(error.to_string(), "swap is on (/dev/sda2), and failSwapOn is true");
        check_swap(&config(&["--fail-swap-on=false"]), root.path()).unwrap();
    }
}
