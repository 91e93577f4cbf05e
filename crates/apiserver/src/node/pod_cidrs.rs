//! The subnets of the node's pods, for the container runtime.

use std::sync::Arc;
use std::time::Duration;

use cri::client::Client;
use cri::{NetworkConfig, RuntimeConfig, UpdateRuntimeConfigRequest};
use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::backoff::Backoff;

/// How long the runtime may take to change its network.
const DEADLINE: Duration = Duration::from_secs(60);

/// Passes `Node.spec.podCIDRs` to the runtime, at the start and whenever they change, until the Node is watched no more.
/// `passed` is called after each success.
pub(crate) async fn pass_on(
    client: Client,
    mut node: watch::Receiver<Option<Arc<Node>>>,
    passed: impl Fn() + Send,
) {
    let mut current = String::new();
    loop {
        let wanted = node.borrow_and_update().as_deref().map(pod_cidrs).unwrap_or_default();
        // A Node that is not seen, or loses its subnets, changes nothing for pods that run.
        if !wanted.is_empty() && wanted != current {
            tokio::select! {
                () = update(&client, &wanted) => {
                    info!("pods get addresses of {wanted}, as the Node says (it said {current:?} before)");
                    current = wanted;
                    passed();
                }
                other = node.wait_for(|node| node.as_deref().map(pod_cidrs).as_ref() != Some(&wanted)) => {
                    if other.is_err() {
                        return;
                    }
                    continue;
                }
            }
        }
        if node.changed().await.is_err() {
            return;
        }
    }
}

/// All subnets, as CRI takes them: joined by commas, the primary first.
fn pod_cidrs(node: &Node) -> String {
    let spec = node.spec.clone().unwrap_or_default();
    let all =
        spec.pod_cidrs.filter(|all| !all.is_empty()).unwrap_or_else(|| spec.pod_cidr.into_iter().collect());
    all.join(",")
}

/// Has the runtime take these subnets, however often it must be asked.
pub(crate) async fn update(client: &Client, cidrs: &str) {
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
    loop {
        let network_config = Some(NetworkConfig { pod_cidr: cidrs.to_owned() });
        let request = UpdateRuntimeConfigRequest { runtime_config: Some(RuntimeConfig { network_config }) };
        let mut service = client.runtime();
        let cause = match tokio::time::timeout(DEADLINE, service.update_runtime_config(request)).await {
            Ok(Ok(_)) => return,
            Ok(Err(status)) => status.message().to_owned(),
            Err(_) => format!("the runtime did not answer within {} s", DEADLINE.as_secs()),
        };
        warn!("the runtime does not take the subnets {cidrs} for pods: {cause}; it is asked again");
        tokio::time::sleep(backoff.after_failure()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_subnets_are_joined_in_their_order() {
        let of = |spec: &str| {
            pod_cidrs(&serde_json::from_str(&format!(r#"{{"metadata":{{}},"spec":{spec}}}"#)).unwrap())
        };
        assert_eq!(of("{}"), "");
        assert_eq!(of(r#"{"podCIDR":"10.1.0.0/24"}"#), "10.1.0.0/24");
        let dual = r#"{"podCIDR":"10.1.0.0/24","podCIDRs":["10.1.0.0/24","fd00:1::/64"]}"#;
        assert_eq!(of(dual), "10.1.0.0/24,fd00:1::/64");
        assert_eq!(pod_cidrs(&Node::default()), "");
    }
}
