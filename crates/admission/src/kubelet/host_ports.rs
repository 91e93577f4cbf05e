//! Ports of the host that pods ask for.

use manifest::k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::requests::is_sidecar;
use super::{Rejection, failed};

const ANY: &str = "0.0.0.0";

/// A port of the host that a container asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HostPort<'a> {
    port: i32,
    protocol: &'a str,
    address: &'a str,
}

impl HostPort<'_> {
    fn conflicts(&self, other: &HostPort<'_>) -> bool {
        let is_same_address = self.address == other.address || [self.address, other.address].contains(&ANY);
        (self.port, self.protocol) == (other.port, other.protocol) && is_same_address
    }
}

fn wanted(spec: &PodSpec) -> impl Iterator<Item = HostPort<'_>> {
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    ports.filter_map(|port| {
        Some(HostPort {
            port: port.host_port.filter(|number| *number > 0)?,
            protocol: port.protocol.as_deref().filter(|text| !text.is_empty()).unwrap_or("TCP"),
            address: port.host_ip.as_deref().filter(|text| !text.is_empty()).unwrap_or(ANY),
        })
    })
}

pub(super) fn conflict(spec: &PodSpec, admitted: &[&Pod]) -> Option<Rejection> {
    let taken = || admitted.iter().filter_map(|pod| pod.spec.as_ref()).flat_map(wanted);
    let is_taken = wanted(spec).any(|port| taken().any(|other| port.conflicts(&other)));
    is_taken.then(|| failed("NodePorts", "node(s) didn't have free ports for the requested pod ports"))
}
