use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ContainerPort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::containers::{Member, Role};
use super::names;
use super::pod::Pod;
use super::report::{Report, each, shown};
use crate::finding::Problem;
use crate::place::Path;

const PORTS: std::ops::RangeInclusive<i32> = 1..=65535;
const PORT_RULE: &str = "must be from 1 to 65535";

pub(super) fn ports(report: &mut Report<'_>, path: &Path<'_>, member: Member<'_>, pod: &Pod<'_>) {
    let mut seen = BTreeSet::new();
    for (index, port) in each(member.container.ports.as_ref()) {
        let path = path.index(index);
        report.may(&path.field("name"), port.name.as_ref(), names::port_name);
        report.once(&path.field("name"), port.name.as_deref().unwrap_or_default(), &mut seen);
        report.one_of(&path.field("protocol"), port.protocol.as_ref(), &["TCP", "UDP", "SCTP"]);
        report.may(&path.field("hostIP"), port.host_ip.as_ref(), names::ip);
        numbers(report, &path, port);
        if member.role == Role::Main {
            shared(report, &path, port, pod);
        }
    }
}

fn numbers(report: &mut Report<'_>, path: &Path<'_>, port: &ContainerPort) {
    if port.container_port == 0 {
        report.required(&path.field("containerPort"));
    } else {
        number(report, &path.field("containerPort"), port.container_port);
    }
    if let Some(host_port) = port.host_port.filter(|p| *p != 0) {
        number(report, &path.field("hostPort"), host_port);
    }
}

/// On the host's network a container's port is the host's.
fn shared(report: &mut Report<'_>, path: &Path<'_>, port: &ContainerPort, pod: &Pod<'_>) {
    let host_port = port.host_port.filter(|p| *p != 0 && *p != port.container_port);
    if let Some(host_port) = host_port.filter(|_| pod.spec.host_network == Some(true)) {
        let path = path.field("hostPort");
        report.invalid(&path, host_port, "must be the containerPort with hostNetwork: true");
    }
}

pub(super) fn number(report: &mut Report<'_>, path: &Path<'_>, port: i32) {
    if !PORTS.contains(&port) {
        report.invalid(path, port, PORT_RULE);
    }
}

/// A port by number or by name.
pub(super) fn number_or_name(report: &mut Report<'_>, path: &Path<'_>, port: &IntOrString) {
    match port {
        IntOrString::Int(port) => number(report, path, *port),
        IntOrString::String(name) => report.needs(path, name, names::port_name),
    }
}

/// No two containers that run side by side listen on the same port of the host.
pub(super) fn host_ports(report: &mut Report<'_>, path: &Path<'_>, pod: &Pod<'_>) {
    let mut beside: BTreeSet<(i32, &str, &str)> = BTreeSet::new();
    let main = pod.spec.containers.iter().enumerate().map(|(i, c)| ("containers", i, c));
    let init = each(pod.spec.init_containers.as_ref()).map(|(i, c)| ("initContainers", i, c));
    for (list, index, container) in main.chain(init) {
        let is_beside = list == "containers" || Role::of_init(container) == Role::Sidecar;
        let mut alone = BTreeSet::new();
        let taken = if is_beside { &mut beside } else { &mut alone };
        let list = path.field(list);
        let item = list.index(index);
        let path = item.field("ports");
        for (index, port) in each(container.ports.as_ref()) {
            let host_port = match (port.host_port, pod.spec.host_network) {
                (Some(host_port), _) if host_port != 0 => host_port,
                (_, Some(true)) if pod.is_pod => port.container_port,
                _ => continue,
            };
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let ip = port.host_ip.as_deref().unwrap_or_default();
            if !taken.insert((host_port, protocol, ip)) {
                let value = shown(&format!("{protocol}/{ip}/{host_port}"));
                report.add(&path.index(index).field("hostPort"), Problem::Duplicate { value });
            }
        }
    }
}
