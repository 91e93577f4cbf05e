//! A pod's sandbox, as the runtime is asked for it.

use std::collections::BTreeMap;
use std::path::Path;

use manifest::k8s_openapi::api::core::v1::ContainerPort;
use wire::cri::{LinuxPodSandboxConfig, PodSandboxConfig, PodSandboxMetadata, PortMapping, Protocol};

use types::keys::POD_UID;

use crate::cri::{POD_NAME, POD_NAMESPACE};
use crate::names::Named;
use crate::ward::Ward;
use crate::{dns, security};

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The same for every attempt but its number.
pub(crate) fn config(ward: &Ward, attempt: u32, logs: &Path) -> PodSandboxConfig {
    let metadata = &ward.pod.metadata;
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: ward.name.clone(),
            uid: ward.uid.as_str().to_owned(),
            namespace: ward.namespace.clone(),
            attempt,
        }),
        hostname: if ward.is_host_network() { String::new() } else { Named::of(ward).for_kernel(&ward.spec) },
        log_directory: logs.display().to_string(),
        dns_config: Some(dns::of(&ward.spec, Path::new(RESOLV_CONF))),
        port_mappings: if ward.is_host_network() { Vec::new() } else { ports(ward) },
        labels: labels(ward),
        annotations: metadata.annotations.clone().unwrap_or_default().into_iter().collect(),
        linux: Some(LinuxPodSandboxConfig {
            security_context: Some(security::of_sandbox(ward)),
            sysctls: sysctls(ward),
            ..LinuxPodSandboxConfig::default()
        }),
    }
}

pub(crate) fn labels(ward: &Ward) -> BTreeMap<String, String> {
    let own = ward.pod.metadata.labels.clone().unwrap_or_default();
    let ours = [
        (POD_NAME, ward.name.as_str()),
        (POD_NAMESPACE, ward.namespace.as_str()),
        (POD_UID, ward.uid.as_str()),
    ];
    own.into_iter().chain(ours.map(|(key, value)| (key.to_owned(), value.to_owned()))).collect()
}

fn sysctls(ward: &Ward) -> BTreeMap<String, String> {
    ward.context().sysctls.into_iter().flatten().map(|s| (s.name, s.value)).collect()
}

fn ports(ward: &Ward) -> Vec<PortMapping> {
    let all = ward.containers().flat_map(|c| c.ports.iter().flatten());
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
        let asked = config(&Ward::for_test(text), 0, Path::new("/logs")).port_mappings;
        let expected = PortMapping {
            protocol: Protocol::Udp.into(),
            container_port: 53,
            host_port: 5353,
            host_ip: "10.0.0.1".into(),
        };
        assert_eq!(asked, [expected]);
        let of_host = text.replacen('{', r#"{"hostNetwork":true,"#, 1);
        assert!(config(&Ward::for_test(&of_host), 0, Path::new("/logs")).port_mappings.is_empty());
    }
}
