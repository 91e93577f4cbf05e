//! Use in CRI's messages.

use cgroups::{Counters, Pressure, PressureResource, Rates, Stall};
use cri::{
    ContainerAttributes, ContainerStats, CpuUsage, FilesystemIdentifier, FilesystemUsage, IoUsage,
    LinuxPodSandboxStats, MemoryUsage, NetworkInterfaceUsage, NetworkUsage, PodSandboxAttributes,
    PodSandboxStats, ProcessUsage, PsiData, PsiStats, SwapUsage, UInt64Value,
};

use super::{Container, Link, Sandbox, Written};

/// The time of a sample, and the earlier samples to compute CPU rates from.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// Nanoseconds since 1970.
    pub at: i64,
    /// The earlier samples.
    pub rates: &'a Rates,
}

/// What a container uses.
#[must_use]
pub fn container(of: &Container, sample: Sample<'_>) -> ContainerStats {
    ContainerStats {
        attributes: Some(ContainerAttributes {
            id: of.id.clone(),
            metadata: Some(of.metadata.clone()),
            labels: of.labels.clone(),
            annotations: of.annotations.clone(),
        }),
        cpu: Some(cpu(&of.id, &of.counters, sample)),
        memory: Some(memory(&of.counters, sample)),
        writable_layer: of.written.as_ref().map(|written| filesystem(written, sample)),
        swap: Some(swap(&of.counters, sample)),
        io: io(&of.counters, sample),
    }
}

/// What a sandbox uses, with its containers.
#[must_use]
pub fn sandbox(of: &Sandbox, sample: Sample<'_>) -> PodSandboxStats {
    let tasks = of.counters.tasks;
    PodSandboxStats {
        attributes: Some(PodSandboxAttributes {
            id: of.id.clone(),
            metadata: Some(of.metadata.clone()),
            labels: of.labels.clone(),
            annotations: of.annotations.clone(),
        }),
        linux: Some(LinuxPodSandboxStats {
            cpu: Some(cpu(&of.id, &of.counters, sample)),
            memory: Some(memory(&of.counters, sample)),
            network: network(&of.links, sample),
            process: Some(ProcessUsage { timestamp: sample.at, process_count: number(tasks) }),
            containers: of.containers.iter().map(|of| container(of, sample)).collect(),
            io: io(&of.counters, sample),
        }),
    }
}

fn number(value: Option<u64>) -> Option<UInt64Value> {
    value.map(|value| UInt64Value { value })
}

fn cpu(id: &str, of: &Counters, sample: Sample<'_>) -> CpuUsage {
    CpuUsage {
        timestamp: sample.at,
        usage_core_nano_seconds: number(of.cpu),
        usage_nano_cores: number(of.cpu.and_then(|used| sample.rates.record(id, sample.at, used))),
        psi: of.pressure.get(&PressureResource::Cpu).map(psi),
    }
}

fn memory(of: &Counters, sample: Sample<'_>) -> MemoryUsage {
    let memory = &of.memory;
    MemoryUsage {
        timestamp: sample.at,
        working_set_bytes: number(memory.working_set()),
        available_bytes: number(memory.available()),
        usage_bytes: number(memory.usage),
        rss_bytes: number(memory.rss),
        page_faults: number(memory.faults),
        major_page_faults: number(memory.major_faults),
        psi: of.pressure.get(&PressureResource::Memory).map(psi),
    }
}

fn swap(of: &Counters, sample: Sample<'_>) -> SwapUsage {
    let (used, limit) = (of.memory.swap, of.memory.swap_limit);
    SwapUsage {
        timestamp: sample.at,
        swap_available_bytes: number(limit.map(|limit| limit.saturating_sub(used.unwrap_or(0)))),
        swap_usage_bytes: number(used),
    }
}

fn io(of: &Counters, sample: Sample<'_>) -> Option<IoUsage> {
    let pressure = of.pressure.get(&PressureResource::Io)?;
    Some(IoUsage { timestamp: sample.at, psi: Some(psi(pressure)) })
}

fn psi(of: &Pressure) -> PsiStats {
    let data = |stall: &Stall| {
        let [avg10, avg60, avg300] = stall.averages;
        Some(PsiData { total: stall.total, avg10, avg60, avg300 })
    };
    PsiStats { full: data(&of.full), some: data(&of.some) }
}

fn filesystem(of: &Written, sample: Sample<'_>) -> FilesystemUsage {
    FilesystemUsage {
        timestamp: sample.at,
        fs_id: Some(FilesystemIdentifier { mountpoint: of.path.clone() }),
        used_bytes: number(Some(of.usage.bytes)),
        inodes_used: number(Some(of.usage.inodes)),
    }
}

fn network(links: &[Link], sample: Sample<'_>) -> Option<NetworkUsage> {
    let interface = |link: &Link| NetworkInterfaceUsage {
        name: link.name.clone(),
        rx_bytes: number(Some(link.received.bytes)),
        rx_errors: number(Some(link.received.errors)),
        tx_bytes: number(Some(link.sent.bytes)),
        tx_errors: number(Some(link.sent.errors)),
    };
    let (default, others) = links.split_first()?;
    Some(NetworkUsage {
        timestamp: sample.at,
        default_interface: Some(interface(default)),
        interfaces: others.iter().map(interface).collect(),
    })
}
