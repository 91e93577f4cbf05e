//! The facts of a runtime, from its Status call.

use std::time::Duration;

use cri::client::Client;
use plan::{HandlerFacts, RuntimeFacts};

use crate::error::Result;

/// Timeout of the Status call.
const DEADLINE: Duration = Duration::from_secs(120);

/// The features of the runtime and of its handlers, as it reports them.
///
/// # Errors
/// If the runtime does not respond.
pub async fn runtime_facts(client: &Client) -> Result<RuntimeFacts> {
    let status = client.status(DEADLINE).await?;
    let handlers = status.runtime_handlers.into_iter().map(|handler| {
        let features = handler.features.unwrap_or_default();
        let facts = HandlerFacts {
            user_namespaces: features.user_namespaces,
            recursive_read_only_mounts: features.recursive_read_only_mounts,
        };
        (handler.name, facts)
    });
    Ok(RuntimeFacts {
        handlers: handlers.collect(),
        user_namespaces_host_network: status.features.is_some_and(|f| f.user_namespaces_host_network),
    })
}
