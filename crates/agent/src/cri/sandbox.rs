//! The CRI configuration of a pod's sandbox.

use std::collections::BTreeMap;
use std::path::Path;

use cri::{LinuxPodSandboxConfig, PodSandboxConfig, PodSandboxMetadata, PortMapping, Protocol};
use manifest::k8s_openapi::api::core::v1::ContainerPort;

use types::keys::POD_UID;

use crate::cri::calls::{POD_NAME, POD_NAMESPACE};
use crate::cri::dns;
use crate::cri::security;
use crate::pod::context::PodContext;

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The sandbox's configuration. It differs between attempts only in their number.
pub(crate) fn config(context: &PodContext, attempt: u32, logs: &Path) -> PodSandboxConfig {
    let metadata = &context.pod.metadata;
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
        dns_config: Some(dns::of(&context.spec, Path::new(RESOLV_CONF))),
        port_mappings: if context.is_host_network() { Vec::new() } else { ports(context) },
        labels: labels(context),
        annotations: metadata.annotations.clone().unwrap_or_default().into_iter().collect(),
        linux: Some(LinuxPodSandboxConfig {
            security_context: Some(security::of_sandbox(context)),
            sysctls: sysctls(context),
            ..LinuxPodSandboxConfig::default()
        }),
    }
}

pub(crate) fn labels(context: &PodContext) -> BTreeMap<String, String> {
    let own = context.pod.metadata.labels.clone().unwrap_or_default();
    let ours = [
        (POD_NAME, context.name.as_str()),
        (POD_NAMESPACE, context.namespace.as_str()),
        (POD_UID, context.uid.as_str()),
    ];
    own.into_iter().chain(ours.map(|(key, value)| (key.to_owned(), value.to_owned()))).collect()
}

fn sysctls(context: &PodContext) -> BTreeMap<String, String> {
    context.security_context().sysctls.into_iter().flatten().map(|s| (s.name, s.value)).collect()
}

fn ports(context: &PodContext) -> Vec<PortMapping> {
    let all = context.containers().flat_map(|c| c.ports.iter().flatten());
    all.filter(|port| port.host_port.is_some_and(|n| n > 0)).map(port).collect()
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
    use super::*;

    #[test]
    fn ports_of_the_host_are_asked_for_and_the_others_only_name() {
        let text = r#"{"containers":[{"name":"a","ports":[{"name":"web","containerPort":80},
            {"containerPort":53,"hostPort":5353,"protocol":"UDP","hostIP":"10.0.0.1"}]}]}"#;
        let asked = config(&PodContext::for_test(text), 0, Path::new("/logs")).port_mappings;
        let expected = PortMapping {
            protocol: Protocol::Udp.into(),
            container_port: 53,
            host_port: 5353,
            host_ip: "10.0.0.1".into(),
        };
        assert_eq!(asked, [expected]);
        let of_host = text.replacen('{', r#"{"hostNetwork":true,"#, 1);
        assert!(config(&PodContext::for_test(&of_host), 0, Path::new("/logs")).port_mappings.is_empty());
    }
}
