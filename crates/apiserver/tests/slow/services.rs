//! Variables of services, watched with the credentials of a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::ports::{ObjectStore, ServiceLinks, SystemClock};
use apiserver::objects::ApiObjects;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::cluster::{Cluster, eventually};

fn service(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

#[test]
fn a_pod_has_variables_of_the_services_of_its_namespace_and_of_the_api_server() {
    let cluster = Cluster::shared();
    let inside = Arc::clone(&cluster);
    cluster.run(move |client| async move {
        let cluster = inside;
        let namespace = cluster.namespace("services");
        let ports = json!([{"name": "web-ui", "port": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
        let made = cluster.create(&service(&namespace, "blue-shop", &json!({"ports": ports})));
        let headless = json!({"clusterIP": "None", "ports": [{"port": 80}]});
        cluster.create(&service(&namespace, "headless", &headless));
        let ip = made["spec"]["clusterIP"].as_str().unwrap();

        let objects = ApiObjects::new(client, Arc::new(SystemClock));
        let variables = |links| block_in_place(|| objects.service_variables(&namespace, links));
        let find = || variables(ServiceLinks::Enabled).ok().filter(|all| all.len() > 7);
        let all = eventually("the services", find).await;
        for (name, value) in [
            ("BLUE_SHOP_SERVICE_HOST", ip.to_owned()),
            ("BLUE_SHOP_SERVICE_PORT", "8080".to_owned()),
            ("BLUE_SHOP_SERVICE_PORT_WEB_UI", "8080".to_owned()),
            ("BLUE_SHOP_SERVICE_PORT_DNS", "53".to_owned()),
            ("BLUE_SHOP_PORT", format!("tcp://{ip}:8080")),
            ("BLUE_SHOP_PORT_53_UDP", format!("udp://{ip}:53")),
            ("BLUE_SHOP_PORT_53_UDP_PROTO", "udp".to_owned()),
            ("KUBERNETES_SERVICE_PORT", "443".to_owned()),
        ] {
            assert_eq!(all.get(name), Some(&value), "{name} in {all:?}");
        }
        let is_foreign = |name: &String| !name.starts_with("BLUE_SHOP_") && !name.starts_with("KUBERNETES_");
        assert!(!all.keys().any(is_foreign), "{all:?}");
        let unlinked = variables(ServiceLinks::Disabled).unwrap();
        assert!(unlinked.contains_key("KUBERNETES_SERVICE_HOST"));
        assert!(unlinked.keys().all(|name| name.starts_with("KUBERNETES_")), "{unlinked:?}");

        // Services come and go.
        let has = |all: &BTreeMap<String, String>, name: &str| all.contains_key(name);
        cluster.create(&service(&namespace, "late", &json!({"ports": [{"port": 1}]})));
        let linked = || variables(ServiceLinks::Enabled).unwrap();
        eventually("the new service", || has(&linked(), "LATE_SERVICE_HOST").then_some(())).await;
        cluster.kubectl(&["delete", "service", "-n", &namespace, "blue-shop"]);
        eventually("the end of it", || (!has(&linked(), "BLUE_SHOP_PORT")).then_some(())).await;
    });
}
