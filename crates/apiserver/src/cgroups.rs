//! The cgroups of the node's pods, and the agent's own score for the kernel's out-of-memory killer, by the kubelet's
//! configuration.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use ::node::kubelet::{self, KubeletConfig};
use agent::{CgroupDriver, CgroupOptions, CpuLimits, NodeLimits};
use cri::client::Client;
use cri::{CallError, Code, RuntimeConfigRequest, within};
use tracing::warn;
use types::Quantity;

use crate::node::{MachineFacts, NodeSettings, kernel_page_size};

/// How long the runtime may take to answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often it is asked, and the pause in between, as a kubelet does.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(2);
/// The value of `enforceNodeAllocatable` by which all pods together are limited.
const PODS: &str = "pods";
/// The name of process IDs among the reservations.
const PID: &str = "pid";
const OOM_SCORE: &str = "proc/self/oom_score_adj";

/// The driver that the runtime uses; the configured one if the runtime does not know the question.
///
/// # Errors
/// If the runtime does not answer.
pub(crate) async fn driver(
    client: &Client,
    configured: kubelet::CgroupDriver,
) -> Result<CgroupDriver, CallError> {
    let mut tried = 0;
    loop {
        let mut runtime = client.runtime();
        let asked = runtime.runtime_config(RuntimeConfigRequest::default());
        let error = match within(DEADLINE, "RuntimeConfig", asked).await {
            Ok(answer) => {
                return Ok(match answer.linux.map(|linux| linux.cgroup_driver()) {
                    Some(cri::CgroupDriver::Systemd) => CgroupDriver::Systemd,
                    Some(cri::CgroupDriver::Cgroupfs) => CgroupDriver::Cgroupfs,
                    None => of_config(configured),
                });
            }
            Err(CallError::Refused { code: Code::Unimplemented, .. }) => return Ok(of_config(configured)),
            Err(error) => error,
        };
        tried += 1;
        if tried == TRIES {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn of_config(configured: kubelet::CgroupDriver) -> CgroupDriver {
    match configured {
        kubelet::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
        kubelet::CgroupDriver::Systemd => CgroupDriver::Systemd,
    }
}

/// What the node sets about the cgroups of its pods. `host_root` is where the root directory of the host is seen.
pub(crate) fn options(
    config: &KubeletConfig,
    settings: &NodeSettings,
    machine: &MachineFacts,
    driver: CgroupDriver,
    host_root: &Path,
) -> CgroupOptions {
    let period = u64::try_from(config.cpu_cfs_quota_period.to_std().as_micros()).unwrap_or(u64::MAX);
    CgroupOptions {
        driver,
        root: config.cgroup_root.clone().unwrap_or_default(),
        fail_on_v1: config.fail_cgroup_v1,
        node: node_limits(config, settings, machine, kernel_pids(host_root)),
        cpu: if config.cpu_cfs_quota { CpuLimits::Quota { period } } else { CpuLimits::Unenforced },
        pids: u64::try_from(config.pod_pids_limit).ok().filter(|limit| *limit > 0),
    }
}

/// Capacity without what is reserved; the whole capacity if limits of pods are not enforced.
fn node_limits(
    config: &KubeletConfig,
    settings: &NodeSettings,
    machine: &MachineFacts,
    pids: Option<u64>,
) -> NodeLimits {
    let (system, kube) = (settings.system_reserved, settings.kube_reserved);
    let is_enforced = config.enforce_node_allocatable.iter().any(|name| name == PODS);
    let rest = |capacity: u64, reserved: [u64; 2]| {
        let reserved = if is_enforced { reserved } else { [0; 2] };
        reserved.into_iter().fold(capacity, u64::saturating_sub)
    };
    let cpu = match settings.reserved_cpus {
        Some(cpus) => [u64::from(cpus).saturating_mul(1000), 0],
        None => [system.cpu_millis, kube.cpu_millis],
    };
    let pages = machine.huge_pages.iter().map(|(size, number)| (kernel_page_size(*size), size * number));
    NodeLimits {
        cpu_millis: rest(u64::from(machine.cpus) * 1000, cpu),
        memory: rest(machine.memory, [system.memory, kube.memory]),
        pids: pids
            .map(|pids| rest(pids, [&config.system_reserved, &config.kube_reserved].map(reserved_pids))),
        hugepages: pages.collect(),
    }
}

fn reserved_pids(reserved: &BTreeMap<String, Quantity>) -> u64 {
    reserved.get(PID).and_then(|amount| u64::try_from(amount.units()).ok()).unwrap_or(0)
}

/// How many processes and threads the kernel allows at once.
fn kernel_pids(host_root: &Path) -> Option<u64> {
    let read = |file: &str| -> Option<u64> {
        fs::read_to_string(host_root.join("proc/sys/kernel").join(file)).ok()?.trim().parse().ok()
    };
    ["pid_max", "threads-max"].into_iter().filter_map(read).min()
}

/// Sets the agent's own `oom_score_adj`, so that the kernel kills pods before it. A host that does not allow it is logged.
pub(crate) fn set_oom_score(score: i32) {
    let file = Path::new("/").join(OOM_SCORE);
    let present = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<i32>().ok());
    if present == Some(score) {
        return;
    }
    if let Err(cause) = fs::write(&file, score.to_string()) {
        warn!(
            "the agent's oom_score_adj cannot be set to {score}: {cause}; when memory runs out, the kernel may kill the \
             agent before pods. Give it CAP_SYS_RESOURCE, or set oomScoreAdj to a value that it may have"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GI: u64 = 1 << 30;

    fn config(more: &str) -> KubeletConfig {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
             systemReserved: {{cpu: 100m, memory: 1Gi, pid: \"1000\"}}\n\
             kubeReserved: {{cpu: 50m, memory: 1Gi, pid: \"24\"}}\n{more}"
        );
        std::fs::write(&file, text).unwrap();
        KubeletConfig::load(Some(&file), None, &kubelet::KubeletFlags::default()).unwrap().config
    }

    fn limits(config: &KubeletConfig) -> NodeLimits {
        let machine = MachineFacts {
            cpus: 4,
            memory: 8 * GI,
            huge_pages: BTreeMap::from([(2 << 20, 3), (GI, 0), (64 << 10, 1)]),
            ..MachineFacts::default()
        };
        let settings = NodeSettings::of(config, &kubelet::NodeFlags::default(), "a", "v1.37.1");
        node_limits(config, &settings, &machine, Some(32_768))
    }

    /// Eviction thresholds are no part of it: pods must be able to reach them.
    #[test]
    fn pods_may_use_what_is_not_reserved() {
        let found = limits(&config(""));
        assert_eq!((found.cpu_millis, found.memory, found.pids), (3850, 6 * GI, Some(31_744)));
        let pages = [("64KB", 64 << 10), ("2MB", 6 << 20), ("1GB", 0)];
        assert_eq!(found.hugepages, pages.map(|(size, bytes)| (size.to_owned(), bytes)).into());
        assert_eq!(limits(&config("reservedSystemCPUs: 0-1\n")).cpu_millis, 2000);
    }

    #[test]
    fn pods_may_use_the_whole_node_where_reservations_are_not_enforced() {
        for list in ["enforceNodeAllocatable: [none]\n", "enforceNodeAllocatable: []\n"] {
            let found = limits(&config(list));
            assert_eq!((found.cpu_millis, found.memory, found.pids), (4000, 8 * GI, Some(32_768)), "{list}");
        }
    }

    #[test]
    fn the_configuration_of_a_kubelet_decides_on_quota_and_processes() {
        let of = |more: &str| {
            let config = config(more);
            let settings = NodeSettings::of(&config, &kubelet::NodeFlags::default(), "a", "v1.37.1");
            options(&config, &settings, &MachineFacts::default(), CgroupDriver::Cgroupfs, Path::new("/"))
        };
        let found = of("");
        assert_eq!((found.root.as_str(), found.cpu, found.pids), ("", CpuLimits::DEFAULT, None));
        assert!(found.fail_on_v1 && found.node.pids.is_some());
        let found = of("cgroupRoot: /node\ncpuCFSQuota: false\npodPidsLimit: 100\nfailCgroupV1: false\n");
        assert_eq!((found.root.as_str(), found.cpu), ("/node", CpuLimits::Unenforced));
        assert_eq!((found.pids, found.fail_on_v1), (Some(100), false));
    }
}
