//! The messages of events about resizes: a kubelet's, with the resources as JSON.

use manifest::k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use serde::Serialize;

use crate::cri::go_json;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Of<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<Of<'a>>,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
}

#[derive(Serialize)]
struct Of<'a> {
    name: &'a str,
    resources: ResourceRequirements,
}

/// `what`, and the resources that the containers of this spec ask for; an empty `error` is left out.
#[must_use]
pub fn resize_message(what: &str, spec: &PodSpec, generation: Option<i64>, error: &str) -> String {
    fn list<'a>(all: impl Iterator<Item = &'a Container>) -> Vec<Of<'a>> {
        let of =
            |one: &'a Container| Of { name: &one.name, resources: one.resources.clone().unwrap_or_default() };
        all.map(of).collect()
    }
    let summary = Summary {
        init_containers: list(spec.init_containers.iter().flatten()),
        containers: list(spec.containers.iter()),
        generation: generation.unwrap_or(0),
        error,
    };
    format!("{what}: {}", go_json::text(&summary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_a_kubelets() {
        let spec: PodSpec = serde_json::from_str(
            r#"{"containers":[{"name":"app","image":"i","resources":{"requests":{"cpu":"2"},"limits":{"memory":"1Gi"}}},{"name":"b"}]}"#,
        )
        .unwrap();
        let expected = r#"Pod resize started: {"containers":[{"name":"app","resources":{"limits":{"memory":"1Gi"},"requests":{"cpu":"2"}}},{"name":"b","resources":{}}],"generation":3}"#;
        assert_eq!(resize_message("Pod resize started", &spec, Some(3), ""), expected);
        let deferred = resize_message("Pod resize OutOfcpu", &PodSpec::default(), None, "too <little>");
        assert_eq!(deferred, r#"Pod resize OutOfcpu: {"generation":0,"error":"too \u003clittle\u003e"}"#);
    }
}
