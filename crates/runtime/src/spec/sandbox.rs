//! What a sandbox is refused before anything of it is made, and the limits of all of it.

use container::Resources;

use cri::{LinuxContainerResources, PodSandboxConfig};
use ids::IdMappings;
use types::Refusal;

use super::{NodeFacts, namespaces, resources};

/// Whether a sandbox can be.
///
/// # Errors
/// With the field that asks for what is not done.
pub fn sandbox(config: &PodSandboxConfig, ids: Option<&IdMappings>, node: &NodeFacts) -> Result<(), Refusal> {
    let Some(linux) = &config.linux else { return Ok(()) };
    let options = linux.security_context.as_ref().and_then(|security| security.namespace_options.as_ref());
    if let (Some(options), Some(_)) = (options, ids) {
        namespaces::not_with_users(options)?;
    }
    match linux.cgroup_parent.as_str() {
        "" => Ok(()),
        parent => resources::parent(parent, node).map(drop).map_err(|refusal| refusal.below("linux")),
    }
}

/// The limits of the control group above a pod's containers: what the containers have together, and what is
/// beside them. Fields are named as they are in the call.
///
/// # Errors
/// With the field that asks for what this node cannot limit.
pub fn pod_limits(
    given: Option<&LinuxContainerResources>,
    overhead: Option<&LinuxContainerResources>,
    node: &NodeFacts,
) -> Result<Resources, Refusal> {
    let none = LinuxContainerResources::default();
    let (given, overhead) = (given.unwrap_or(&none), overhead.unwrap_or(&none));
    // What is beside them has limits of the same kinds, or none.
    resources::limits(overhead, node).map_err(|refusal| refusal.below("overhead"))?;
    let more = |limit: i64, more: i64| if limit > 0 { limit.saturating_add(more.max(0)) } else { limit };
    let both = LinuxContainerResources {
        cpu_shares: more(given.cpu_shares, overhead.cpu_shares),
        cpu_quota: more(given.cpu_quota, quota_in(overhead, given.cpu_period)),
        memory_limit_in_bytes: more(given.memory_limit_in_bytes, overhead.memory_limit_in_bytes),
        memory_swap_limit_in_bytes: more(given.memory_swap_limit_in_bytes, overhead.memory_limit_in_bytes),
        ..given.clone()
    };
    resources::limits(&both, node).map_err(|refusal| refusal.below("resources"))
}

/// The same share of a processor, in a period of another length.
fn quota_in(given: &LinuxContainerResources, period: i64) -> i64 {
    match (given.cpu_period, period) {
        (own, wanted) if own > 0 && wanted > 0 => given.cpu_quota.saturating_mul(wanted) / own,
        _ => given.cpu_quota,
    }
}
