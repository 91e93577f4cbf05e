//! The CRI configuration of a pod's sandbox.

use std::collections::BTreeMap;
use std::path::Path;

use cri::{DnsConfig, LinuxPodSandboxConfig, PodSandboxConfig, PodSandboxMetadata, PortMapping, Protocol};
use manifest::k8s_openapi::api::core::v1::ContainerPort;

use types::keys::POD_UID;

use crate::cri::calls::{POD_NAME, POD_NAMESPACE};
use crate::cri::security;
use crate::pod::context::PodContext;
use crate::pod::parent::CpuLimits;
use crate::pod::resources::PodResources;

/// The sandbox's configuration. It differs between attempts in their number, and in `dns` if the node's resolver has changed.
pub(crate) fn config(context: &PodContext, attempt: u32, logs: &Path, dns: DnsConfig) -> PodSandboxConfig {
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: context.name.clone(),
            uid: context.uid.as_str().to_owned(),
            namespace: context.namespace.clone(),
            attempt,
        }),
        hostname: if context.is_host_network() {
            String::new()
        } else {
            context.hostname().for_kernel(&context.spec)
        },
        log_directory: logs.display().to_string(),
        dns_config: Some(dns),
        port_mappings: ports(context),
        labels: labels(context),
        annotations: annotations(context),
        linux: Some(LinuxPodSandboxConfig {
            security_context: Some(security::of_sandbox(context)),
            sysctls: sysctls(context),
            ..in_cgroup(context)
        }),
    }
}

/// The sandbox's cgroup and resources, on a node that makes cgroups for its pods.
fn in_cgroup(context: &PodContext) -> LinuxPodSandboxConfig {
    let resources = PodResources::of(&context.spec);
    let Some(parent) = &context.cgroup else {
        let has_overhead = context.spec.overhead.as_ref().is_some_and(|overhead| !overhead.is_empty());
        let overhead = has_overhead.then(|| resources.overhead(CpuLimits::DEFAULT));
        return LinuxPodSandboxConfig { overhead, ..LinuxPodSandboxConfig::default() };
    };
    LinuxPodSandboxConfig {
        cgroup_parent: parent.path.clone(),
        resources: Some(resources.of_sandbox(parent.cpu)),
        overhead: Some(resources.overhead(parent.cpu)),
        ..LinuxPodSandboxConfig::default()
    }
}

fn labels(context: &PodContext) -> BTreeMap<String, String> {
    let own = context.pod.metadata.labels.clone().unwrap_or_default();
    own.into_iter().chain(identity(context)).collect()
}

/// The pod's annotations, and the instance's, which a manifest cannot replace.
fn annotations(context: &PodContext) -> BTreeMap<String, String> {
    context.annotations().into_iter().chain([context.instance.annotation()]).collect()
}

/// The labels that name the pod.
pub(crate) fn identity(context: &PodContext) -> BTreeMap<String, String> {
    let named = [
        (POD_NAME, context.name.as_str()),
        (POD_NAMESPACE, context.namespace.as_str()),
        (POD_UID, context.uid.as_str()),
    ];
    named.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn sysctls(context: &PodContext) -> BTreeMap<String, String> {
    let all = context.security_context().sysctls.into_iter().flatten();
    all.map(|sysctl| (admission::sysctl_name(&sysctl.name), sysctl.value)).collect()
}

/// All ports of the regular containers, as a kubelet sends them: one without a host port maps nothing. Init containers
/// may be sidecars, whose host ports are mapped too.
fn ports(context: &PodContext) -> Vec<PortMapping> {
    let of_init = context.spec.init_containers.iter().flatten().flat_map(|c| c.ports.iter().flatten());
    let mapped = of_init.filter(|port| port.host_port.is_some_and(|n| n > 0));
    let regular = context.spec.containers.iter().flat_map(|c| c.ports.iter().flatten());
    regular.chain(mapped).map(port).collect()
}

fn port(port: &ContainerPort) -> PortMapping {
    let protocol = match port.protocol.as_deref() {
        Some("UDP") => Protocol::Udp,
        Some("SCTP") => Protocol::Sctp,
        _ => Protocol::Tcp,
    };
    PortMapping {
        protocol: protocol.into(),
        container_port: port.container_port,
        host_port: port.host_port.unwrap_or_default(),
        host_ip: port.host_ip.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use types::keys::INSTANCE;

    use super::*;

    #[test]
    fn a_sysctl_is_named_with_dots() {
        let text =
            r#"{"containers":[],"securityContext":{"sysctls":[{"name":"net/ipv4/tcp_rmem","value":"1"}]}}"#;
        let found = sysctls(&PodContext::for_test(text));
        assert_eq!(found, BTreeMap::from([("net.ipv4.tcp_rmem".to_owned(), "1".to_owned())]));
    }

    /// By it a later process knows whose sandbox it is.
    #[test]
    fn the_annotation_of_the_instance_is_not_the_manifests() {
        let mut context = PodContext::for_test(r#"{"containers":[]}"#);
        let [forged, other] = [(INSTANCE, "another"), ("a", "b")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        context.pod.metadata.annotations = Some(BTreeMap::from([forged, other.clone()]));
        let found = config(&context, 0, Path::new("/logs"), DnsConfig::default()).annotations;
        assert_eq!(found, BTreeMap::from([context.instance.annotation(), other]));
    }

    #[test]
    fn all_ports_of_regular_containers_are_asked_for_and_host_ports_of_init_containers() {
        let text = r#"{"containers":[{"name":"a","ports":[{"name":"web","containerPort":80},
            {"containerPort":53,"hostPort":5353,"protocol":"UDP","hostIP":"10.0.0.1"}]}],
            "initContainers":[{"name":"b","ports":[{"containerPort":1},{"containerPort":2,"hostPort":3}]}]}"#;
        let asked =
            config(&PodContext::for_test(text), 0, Path::new("/logs"), DnsConfig::default()).port_mappings;
        let mapping =
            |container_port, host_port| PortMapping { container_port, host_port, ..Default::default() };
        let of_address =
            PortMapping { protocol: Protocol::Udp.into(), host_ip: "10.0.0.1".into(), ..mapping(53, 5353) };
        assert_eq!(asked, [mapping(80, 0), of_address, mapping(2, 3)]);
    }
}
