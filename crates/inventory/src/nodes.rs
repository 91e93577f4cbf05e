use std::collections::BTreeMap;

use manifest::k8s_openapi::api::core::v1::Node;
use plan::HandlerFacts;

/// What a node says of its runtime's handlers.
pub(crate) fn handlers(node: &Node) -> BTreeMap<String, HandlerFacts> {
    let all = node.status.iter().flat_map(|status| status.runtime_handlers.iter().flatten());
    let facts = all.map(|handler| {
        let can = handler.features.as_ref();
        let facts = HandlerFacts {
            user_namespaces: can.and_then(|f| f.user_namespaces) == Some(true),
            recursive_read_only_mounts: can.and_then(|f| f.recursive_read_only_mounts) == Some(true),
        };
        (handler.name.clone().unwrap_or_default(), facts)
    });
    facts.collect()
}
