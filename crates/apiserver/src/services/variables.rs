//! The variables of services, as Kubernetes names them.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use agent::ports::ServiceLinks;
use serde_json::Value;

/// The namespace and the name of the API server's own service, which every pod has variables of.
const MASTER_NAMESPACE: &str = "default";
const MASTER: &str = "kubernetes";

/// A service by its namespace and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServiceKey {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What variables tell of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Service {
    cluster_ip: String,
    ports: Vec<Port>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Port {
    name: String,
    number: u64,
    protocol: String,
}

impl Service {
    /// Reads a service's `spec`; `None` if it has no address.
    pub(super) fn read(spec: &Value) -> Option<Self> {
        let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let cluster_ip = text(spec, "clusterIP");
        if ["", "None"].contains(&cluster_ip.as_str()) {
            return None;
        }
        let port = |port: &Value| {
            let protocol = text(port, "protocol");
            let protocol = if protocol.is_empty() { "TCP".to_owned() } else { protocol };
            Some(Port { name: text(port, "name"), number: port.get("port")?.as_u64()?, protocol })
        };
        let ports = spec.get("ports").and_then(Value::as_array).into_iter().flatten();
        Some(Self { cluster_ip, ports: ports.filter_map(port).collect() })
    }

    fn add_to(&self, variables: &mut BTreeMap<String, String>, name: &str) {
        let prefix = variable_name(name);
        let mut add = |name: String, value: String| variables.insert(name, value);
        add(format!("{prefix}_SERVICE_HOST"), self.cluster_ip.clone());
        if let Some(first) = self.ports.first() {
            add(format!("{prefix}_SERVICE_PORT"), first.number.to_string());
            add(format!("{prefix}_PORT"), self.url(first));
        }
        for port in &self.ports {
            let Port { name, number, protocol } = port;
            if !name.is_empty() {
                add(format!("{prefix}_SERVICE_PORT_{}", variable_name(name)), number.to_string());
            }
            let of_port = format!("{prefix}_PORT_{number}_{}", protocol.to_uppercase());
            add(of_port.clone(), self.url(port));
            add(format!("{of_port}_PROTO"), protocol.to_lowercase());
            add(format!("{of_port}_PORT"), number.to_string());
            add(format!("{of_port}_ADDR"), self.cluster_ip.clone());
        }
    }

    fn url(&self, port: &Port) -> String {
        let (protocol, number, ip) = (port.protocol.to_lowercase(), port.number, &self.cluster_ip);
        match ip.parse::<Ipv6Addr>() {
            Ok(_) => format!("{protocol}://[{ip}]:{number}"),
            Err(_) => format!("{protocol}://{ip}:{number}"),
        }
    }
}

fn variable_name(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

/// The variables of a pod in this namespace. A service `kubernetes` of its own namespace replaces the API server's.
pub(super) fn variables(
    services: &BTreeMap<ServiceKey, Service>,
    namespace: &str,
    links: ServiceLinks,
) -> BTreeMap<String, String> {
    let is_master = |key: &ServiceKey| key.namespace == MASTER_NAMESPACE && key.name == MASTER;
    let is_linked = |key: &ServiceKey| links == ServiceLinks::Enabled && key.namespace == namespace;
    let master = services.iter().filter(|(key, _)| is_master(key));
    let linked = services.iter().filter(|(key, _)| is_linked(key));
    let chosen: BTreeMap<&str, &Service> =
        master.chain(linked).map(|(key, service)| (key.name.as_str(), service)).collect();
    let mut all = BTreeMap::new();
    chosen.iter().for_each(|(name, service)| service.add_to(&mut all, name));
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(ip: &str, ports: &Value) -> Service {
        Service::read(&json!({"clusterIP": ip, "ports": ports})).unwrap()
    }

    fn key(namespace: &str, name: &str) -> ServiceKey {
        ServiceKey { namespace: namespace.into(), name: name.into() }
    }

    fn texts(variables: &BTreeMap<String, String>) -> Vec<String> {
        variables.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn a_service_has_the_names_that_kubernetes_gives() {
        let ports = json!([
            {"name": "plain-text", "port": 80},
            {"name": "dns", "port": 53, "protocol": "UDP"},
        ]);
        let services = BTreeMap::from([(key("shop", "web-site"), service("10.0.0.9", &ports))]);
        let expected = [
            "WEB_SITE_PORT=tcp://10.0.0.9:80",
            "WEB_SITE_PORT_53_UDP=udp://10.0.0.9:53",
            "WEB_SITE_PORT_53_UDP_ADDR=10.0.0.9",
            "WEB_SITE_PORT_53_UDP_PORT=53",
            "WEB_SITE_PORT_53_UDP_PROTO=udp",
            "WEB_SITE_PORT_80_TCP=tcp://10.0.0.9:80",
            "WEB_SITE_PORT_80_TCP_ADDR=10.0.0.9",
            "WEB_SITE_PORT_80_TCP_PORT=80",
            "WEB_SITE_PORT_80_TCP_PROTO=tcp",
            "WEB_SITE_SERVICE_HOST=10.0.0.9",
            "WEB_SITE_SERVICE_PORT=80",
            "WEB_SITE_SERVICE_PORT_DNS=53",
            "WEB_SITE_SERVICE_PORT_PLAIN_TEXT=80",
        ];
        assert_eq!(texts(&variables(&services, "shop", ServiceLinks::Enabled)), expected);
    }

    #[test]
    fn an_ipv6_address_is_bracketed_in_urls_only() {
        let services = BTreeMap::from([(key("shop", "db"), service("fd00::9", &json!([{"port": 5432}])))]);
        let all = variables(&services, "shop", ServiceLinks::Enabled);
        assert_eq!(
            (all["DB_PORT"].as_str(), all["DB_SERVICE_HOST"].as_str()),
            ("tcp://[fd00::9]:5432", "fd00::9")
        );
    }

    #[test]
    fn a_pod_sees_its_namespace_and_the_api_server_and_nothing_else() {
        let of = |ip: &str| service(ip, &json!([{"port": 443}]));
        let mut services = BTreeMap::from([
            (key("default", "kubernetes"), of("10.0.0.1")),
            (key("default", "other"), of("10.0.0.2")),
            (key("shop", "db"), of("10.0.0.3")),
            (key("stage", "db"), of("10.0.0.4")),
        ]);
        let hosts = |services: &_, namespace: &str, links| -> Vec<String> {
            let all = texts(&variables(services, namespace, links));
            all.into_iter().filter(|text| text.contains("_SERVICE_HOST=")).collect()
        };
        let (enabled, disabled) = (ServiceLinks::Enabled, ServiceLinks::Disabled);
        let master = "KUBERNETES_SERVICE_HOST=10.0.0.1";
        assert_eq!(hosts(&services, "shop", enabled), ["DB_SERVICE_HOST=10.0.0.3", master]);
        assert_eq!(hosts(&services, "shop", disabled), [master]);
        assert_eq!(hosts(&services, "default", enabled), [master, "OTHER_SERVICE_HOST=10.0.0.2"]);
        services.insert(key("shop", "kubernetes"), of("10.0.0.8"));
        services.insert(key("aaa", "kubernetes"), of("10.0.0.7"));
        assert_eq!(hosts(&services, "shop", enabled)[1], "KUBERNETES_SERVICE_HOST=10.0.0.8");
        assert_eq!(hosts(&services, "aaa", enabled), ["KUBERNETES_SERVICE_HOST=10.0.0.7"]);
        assert_eq!(hosts(&services, "shop", disabled), [master]);
    }

    #[test]
    fn a_service_without_an_address_has_no_variables() {
        for spec in
            [json!({"clusterIP": "None"}), json!({"clusterIP": ""}), json!({"externalName": "x"}), json!(3)]
        {
            assert_eq!(Service::read(&spec), None, "{spec}");
        }
    }
}
