//! Use in CRI's messages.

use wire::cri::{
    ContainerAttributes, ContainerStats, CpuUsage, FilesystemIdentifier, FilesystemUsage, IoUsage,
    LinuxPodSandboxStats, MemoryUsage, NetworkInterfaceUsage, NetworkUsage, PodSandboxAttributes,
    PodSandboxStats, ProcessUsage, PsiData, PsiStats, SwapUsage, UInt64Value,
};

use super::counters::{Counters, Pressure, Resource, Stall};
use super::{Container, Link, Rates, Sandbox, Written};

/// When somebody looked, and what is known from before.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// Nanoseconds since 1970.
    pub at: i64,
    /// What was seen the last time.
    pub rates: &'a Rates,
}

/// What a container uses.
#[must_use]
pub fn container(of: &Container, look: Look<'_>) -> ContainerStats {
    ContainerStats {
        attributes: Some(ContainerAttributes {
            id: of.id.clone(),
            metadata: Some(of.metadata.clone()),
            labels: of.labels.clone(),
            annotations: of.annotations.clone(),
        }),
        cpu: Some(cpu(&of.id, &of.counters, look)),
        memory: Some(memory(&of.counters, look)),
        writable_layer: of.written.as_ref().map(|written| filesystem(written, look)),
        swap: Some(swap(&of.counters, look)),
        io: io(&of.counters, look),
    }
}

/// What a sandbox uses, with its containers.
#[must_use]
pub fn sandbox(of: &Sandbox, look: Look<'_>) -> PodSandboxStats {
    let tasks = of.counters.tasks;
    PodSandboxStats {
        attributes: Some(PodSandboxAttributes {
            id: of.id.clone(),
            metadata: Some(of.metadata.clone()),
            labels: of.labels.clone(),
            annotations: of.annotations.clone(),
        }),
        linux: Some(LinuxPodSandboxStats {
            cpu: Some(cpu(&of.id, &of.counters, look)),
            memory: Some(memory(&of.counters, look)),
            network: network(&of.links, look),
            process: Some(ProcessUsage { timestamp: look.at, process_count: number(tasks) }),
            containers: of.containers.iter().map(|of| container(of, look)).collect(),
            io: io(&of.counters, look),
        }),
    }
}

fn number(value: Option<u64>) -> Option<UInt64Value> {
    value.map(|value| UInt64Value { value })
}

fn cpu(id: &str, of: &Counters, look: Look<'_>) -> CpuUsage {
    CpuUsage {
        timestamp: look.at,
        usage_core_nano_seconds: number(of.cpu),
        usage_nano_cores: number(of.cpu.and_then(|used| look.rates.look(id, look.at, used))),
        psi: of.pressure.get(&Resource::Cpu).map(psi),
    }
}

fn memory(of: &Counters, look: Look<'_>) -> MemoryUsage {
    let memory = &of.memory;
    MemoryUsage {
        timestamp: look.at,
        working_set_bytes: number(memory.working_set()),
        available_bytes: number(memory.available()),
        usage_bytes: number(memory.usage),
        rss_bytes: number(memory.rss),
        page_faults: number(memory.faults),
        major_page_faults: number(memory.major_faults),
        psi: of.pressure.get(&Resource::Memory).map(psi),
    }
}

fn swap(of: &Counters, look: Look<'_>) -> SwapUsage {
    let (used, limit) = (of.memory.swap, of.memory.swap_limit);
    SwapUsage {
        timestamp: look.at,
        swap_available_bytes: number(limit.map(|limit| limit.saturating_sub(used.unwrap_or(0)))),
        swap_usage_bytes: number(used),
    }
}

fn io(of: &Counters, look: Look<'_>) -> Option<IoUsage> {
    let pressure = of.pressure.get(&Resource::Io)?;
    Some(IoUsage { timestamp: look.at, psi: Some(psi(pressure)) })
}

fn psi(of: &Pressure) -> PsiStats {
    let data = |stall: &Stall| {
        let [avg10, avg60, avg300] = stall.averages;
        Some(PsiData { total: stall.total, avg10, avg60, avg300 })
    };
    PsiStats { full: data(&of.full), some: data(&of.some) }
}

fn filesystem(of: &Written, look: Look<'_>) -> FilesystemUsage {
    FilesystemUsage {
        timestamp: look.at,
        fs_id: Some(FilesystemIdentifier { mountpoint: of.path.clone() }),
        used_bytes: number(Some(of.usage.bytes)),
        inodes_used: number(Some(of.usage.inodes)),
    }
}

fn network(links: &[Link], look: Look<'_>) -> Option<NetworkUsage> {
    let interface = |link: &Link| NetworkInterfaceUsage {
        name: link.name.clone(),
        rx_bytes: number(Some(link.received.bytes)),
        rx_errors: number(Some(link.received.errors)),
        tx_bytes: number(Some(link.sent.bytes)),
        tx_errors: number(Some(link.sent.errors)),
    };
    let (default, others) = links.split_first()?;
    Some(NetworkUsage {
        timestamp: look.at,
        default_interface: Some(interface(default)),
        interfaces: others.iter().map(interface).collect(),
    })
}
