use std::collections::BTreeMap;
use std::sync::Arc;

use cri::{ContainerEventType, PodSandboxConfig, PortMapping, Protocol};
use kernel::NamespaceKind;
use tracing::{info, warn};

use super::files::Files;
use super::namespaces::{self, Own, Sharing};
use super::{called, label, remove, sysctls};
use crate::error::{Error, Result};
use crate::files::make_dir;
use crate::id::Id;
use crate::node::Node;
use crate::records::{CgroupParent, SandboxRecord, SandboxStage, VERSION};
use crate::store::Sandbox;
use crate::work::{blocking, now};
use crate::{files, monitors, selinux, spec, status, userns};

/// Makes a sandbox.
pub(crate) async fn run(node: Arc<Node>, config: PodSandboxConfig, handler: String) -> Result<Id> {
    let name = super::name(&config)?;
    let mut record = record(&node, config, handler)?;
    let id = record.id.clone();
    let config = record.config.clone();
    // Refused before anything is there.
    let settings = spec::sysctls(&config, record.ids.as_ref())?;
    let limits = limits(&node, &config)?;
    let ports = host_ports(&config.port_mappings)?;
    node.store.reserve("sandbox", &name, &id)?;
    let (on_node, of_sandbox) = (Arc::clone(&node), record.clone());
    let label = blocking(move || label::label_of(&on_node, &of_sandbox)).await;
    record.label = label.inspect_err(|_| node.store.release(&id))?;
    let sandbox = Arc::new(Sandbox::new(record, node.layout.sandbox(&id)));
    for warning in sandbox.record().ids.iter().flat_map(userns::warnings) {
        warn!(parent: &sandbox.span, sandbox = %id, "sandbox {id} of {}: {warning}", called(&config));
    }
    let _gate = sandbox.gate.lock().await;
    node.store.add_sandbox(Arc::clone(&sandbox));
    let made = make(&node, &sandbox, Wishes { settings, limits, ports }).await;
    if let Err(error) = made {
        if let Err(left) = remove::take_away(&node, &sandbox).await {
            warn!(parent: &sandbox.span, sandbox = %id, "sandbox {id}: what was made of it is not all gone: {left}");
        }
        return Err(error);
    }
    monitors::listen(&node, &sandbox);
    let (pod, addresses) = (called(&config), addresses(&sandbox));
    info!(parent: &sandbox.span, sandbox = %id, "sandbox {id} of {pod} is ready{addresses}");
    for kind in [ContainerEventType::ContainerCreatedEvent, ContainerEventType::ContainerStartedEvent] {
        node.events.publish(&node.store, kind, &id, &sandbox);
    }
    Ok(id)
}

/// What of a configuration was understood already.
struct Wishes {
    settings: BTreeMap<String, String>,
    limits: container::Resources,
    ports: Vec<network::HostPort>,
}

fn limits(node: &Node, config: &PodSandboxConfig) -> Result<container::Resources> {
    let linux = config.linux.clone().unwrap_or_default();
    let limits = spec::pod_limits(linux.resources.as_ref(), linux.overhead.as_ref(), &node.facts);
    Ok(limits.map_err(|refusal| refusal.below("linux"))?)
}

fn record(node: &Node, config: PodSandboxConfig, handler: String) -> Result<SandboxRecord> {
    status::known_handler(&node.settings, &handler)?;
    let own = Own::of(&config)?;
    let linux = config.linux.clone().unwrap_or_default();
    let options = linux.security_context.and_then(|security| security.namespace_options);
    let ids = userns::decide(options.as_ref())?;
    if ids.is_some() {
        files::check_passable(&node.layout.container_runs())?;
    }
    spec::sandbox(&config, ids.as_ref(), &node.facts)?;
    if own.network == Sharing::Host
        && config.port_mappings.iter().any(|port| port.host_port != port.container_port)
    {
        warn!("{}: host ports mean nothing in the host's network", called(&config));
    }
    let id = Id::random().map_err(|cause| Error::step("read random numbers", cause))?;
    let cgroup = match linux.cgroup_parent.as_str() {
        "" => CgroupParent::Own(format!("{}/{id}", node.settings.cgroup)),
        given => CgroupParent::Given(spec::parent(given, &node.facts)?),
    };
    Ok(SandboxRecord {
        version: VERSION,
        id,
        created_at: now(),
        boot_id: node.boot_id.clone(),
        stage: SandboxStage::Making,
        config,
        handler,
        ids,
        cgroup,
        label: None,
        ips: vec![],
    })
}

/// All steps of creating the sandbox. If one fails, the caller must remove the rest.
async fn make(node: &Arc<Node>, sandbox: &Arc<Sandbox>, wishes: Wishes) -> Result<()> {
    let Wishes { settings, limits, ports } = wishes;
    let record = sandbox.record();
    let own = Own::of(&record.config)?;
    let hostname = hostname(node, &record.config, own);
    let (on_node, of_sandbox, name) = (Arc::clone(node), Arc::clone(sandbox), hostname.clone());
    blocking(move || {
        let (record, places) = (of_sandbox.record(), &of_sandbox.places);
        make_dir(&places.state)?;
        files::write(&places.record(), &record)?;
        make_dir(&places.run)?;
        let label = selinux::file_label(on_node.facts.selinux.as_ref(), &record);
        let wanted = namespaces::NamespaceRequest { own, ids: record.ids.as_ref(), hostname: &name, label };
        namespaces::make(places, &wanted)?;
        files(&on_node, &of_sandbox, &name).write(record.config.dns_config.as_ref())?;
        sysctls::apply(places, &settings, namespaces::root_of(record.ids.as_ref()))?;
        if let CgroupParent::Own(path) = &record.cgroup {
            on_node.groups.make(path)?;
            on_node.groups.apply(path, &limits)?;
        }
        Ok(())
    })
    .await?;
    // Both to their end, however the other fares: what is still being made cannot be taken away.
    let (ips, watched) = tokio::join!(connect(node, sandbox, ports), watch(node, sandbox));
    let ips = ips?;
    watched?;
    let (on_node, of_sandbox) = (Arc::clone(node), Arc::clone(sandbox));
    blocking(move || {
        match own.network {
            Sharing::Host => files(&on_node, &of_sandbox, &hostname).copy_hosts()?,
            _ => files(&on_node, &of_sandbox, &hostname).write_hosts(&ips)?,
        }
        let mut monitor = monitors::client(&on_node, &of_sandbox)?;
        if own.pid == Sharing::Pod {
            let init = monitors::pid_namespace(&mut monitor)?;
            init.namespace(NamespaceKind::Pid)?.pin(&of_sandbox.places.pin(NamespaceKind::Pid))?;
        }
        of_sandbox.change(|record| {
            record.ips = ips;
            record.stage = SandboxStage::Ready;
        })
    })
    .await
}

fn files<'a>(node: &Node, sandbox: &'a Sandbox, hostname: &'a str) -> Files<'a> {
    let record = sandbox.record();
    Files {
        places: &sandbox.places,
        hostname,
        owner: namespaces::root_of(record.ids.as_ref()),
        label: selinux::file_label(node.facts.selinux.as_ref(), &record),
    }
}

/// Starts the pod's monitor.
async fn watch(node: &Arc<Node>, sandbox: &Arc<Sandbox>) -> Result<()> {
    let (on_node, of_sandbox) = (Arc::clone(node), Arc::clone(sandbox));
    blocking(move || monitors::client(&on_node, &of_sandbox).map(drop)).await
}

/// Gives the pod its network, if it has one of its own.
async fn connect(node: &Node, sandbox: &Sandbox, host_ports: Vec<network::HostPort>) -> Result<Vec<String>> {
    let record = sandbox.record();
    if Own::of(&record.config)?.network == Sharing::Host {
        return Ok(vec![]);
    }
    let metadata = record.config.metadata.unwrap_or_default();
    let pod = network::Pod {
        id: record.id.to_string(),
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        netns: sandbox.places.pin(NamespaceKind::Net),
        host_ports,
        annotations: record.config.annotations.into_iter().collect(),
    };
    let addresses = node.network.set_up(&pod).await?;
    Ok(addresses.ips.iter().map(ToString::to_string).collect())
}

/// What the pod calls itself: in the host's network, what the host does.
fn hostname(node: &Node, config: &PodSandboxConfig, own: Own) -> String {
    match (own.network, config.hostname.as_str()) {
        (Sharing::Pod, name) if !name.is_empty() => name.to_owned(),
        _ => node.facts.hostname.clone(),
    }
}

fn host_ports(given: &[PortMapping]) -> Result<Vec<network::HostPort>> {
    let mapped = given.iter().enumerate().filter(|(_, port)| port.host_port != 0);
    mapped
        .map(|(n, port)| {
            host_port(port)
                .map_err(|(field, cause)| Error::invalid(&format!("port_mappings[{n}].{field}"), cause))
        })
        .collect()
}

fn host_port(port: &PortMapping) -> Result<network::HostPort, (&'static str, String)> {
    let number = |field, number: i32| match u16::try_from(number) {
        Ok(number) if number != 0 => Ok(number),
        _ => Err((field, format!("{number} is no port"))),
    };
    let host_ip = Some(port.host_ip.as_str()).filter(|ip| !ip.is_empty());
    let host_ip = host_ip.map(|ip| ip.parse().map_err(|_| ("host_ip", format!("{ip:?} is no address"))));
    Ok(network::HostPort {
        protocol: match port.protocol() {
            Protocol::Tcp => network::Protocol::Tcp,
            Protocol::Udp => network::Protocol::Udp,
            Protocol::Sctp => network::Protocol::Sctp,
        },
        host_ip: host_ip.transpose()?,
        host_port: number("host_port", port.host_port)?,
        container_port: number("container_port", port.container_port)?,
    })
}

fn addresses(sandbox: &Sandbox) -> String {
    let ips = sandbox.record().ips;
    if ips.is_empty() { String::new() } else { format!(" at {}", ips.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(container_port: i32, host_port: i32, host_ip: &str) -> PortMapping {
        PortMapping { protocol: 0, container_port, host_port, host_ip: host_ip.into() }
    }

    #[test]
    fn ports_without_a_port_of_the_host_are_none_of_ours() {
        let found = host_ports(&[port(80, 0, ""), port(80, 8080, "10.0.0.1")]).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].host_port, found[0].container_port), (8080, 80));
    }

    #[test]
    fn ports_that_cannot_be_are_refused_by_field() {
        for (wrong, field) in [
            (port(80, 70_000, ""), "port_mappings[0].host_port"),
            (port(0, 80, ""), "port_mappings[0].container_port"),
            (port(80, 80, "here"), "port_mappings[0].host_ip"),
        ] {
            let error = host_ports(&[wrong]).unwrap_err().to_string();
            assert!(error.starts_with(field), "{error}");
        }
    }
}
