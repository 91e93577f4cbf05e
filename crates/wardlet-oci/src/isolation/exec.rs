use kernel::{NamespaceKind, NetworkVisit, Process};

use super::{Error, ExecOrder, JoinOrder, Result, RuntimeKind, stdio};

/// The namespaces that this process is in for `exec`. Dropping it returns the process to those that it came from.
#[derive(Debug)]
#[must_use = "dropping it returns the process to its own namespaces"]
pub struct Joined(#[allow(dead_code, reason = "held for its Drop")] Option<NetworkVisit>);

/// Prepares this process to execute the runtime's `exec`: the container's user gets the standard streams, and the
/// process joins the pod's network namespace if the runtime cannot do so by itself. It is an error if the runtime would
/// run the new process outside of the pod's user namespace.
pub fn join_for_exec(order: &ExecOrder) -> Result<Joined> {
    if order.runtime.kind.leaves_users_at_exec() {
        return Err(Error::ExecEscapes { runtime: "youki" });
    }
    stdio::give(&order.process, &order.ids)?;
    // runc joins the namespaces in its own state of the container. The state that a runc before 1.2 wrote has no
    // network namespace, and the runc that reads it may be newer.
    if order.runtime.joins == JoinOrder::HostsFirst && order.runtime.kind != RuntimeKind::Runc {
        return Ok(Joined(None));
    }
    let init = Process::open(order.init)?;
    let (network, users) = (init.namespace(NamespaceKind::Net)?, init.namespace(NamespaceKind::User)?);
    // The runtime can join a network namespace that the pod's user namespace owns, and has it in its own state.
    let own = network.owner()?.is_some_and(|owner| owner.id() == users.id());
    let visit = if own { None } else { Some(NetworkVisit::to(&network)?) };
    Ok(Joined(visit))
}

/// Whether a process is in another user namespace than this one. It is an error if the process has ended.
pub fn has_own_user_namespace(init: u32) -> Result<bool> {
    let users = |process: Process| process.namespace(NamespaceKind::User).map(|namespace| namespace.id());
    Ok(users(Process::own()?)? != users(Process::open(init)?)?)
}

/// Whether a process is in another user namespace than this one, and in a network namespace that is neither the host's
/// nor owned by that user namespace: a runtime that joins the user namespace first cannot join it. It is an error if
/// the process has ended.
pub fn is_in_foreign_network(init: u32) -> Result<bool> {
    let (own, init) = (Process::own()?, Process::open(init)?);
    let (users, network) = (init.namespace(NamespaceKind::User)?, init.namespace(NamespaceKind::Net)?);
    let ours = |kind| own.namespace(kind).map(|namespace| namespace.id());
    if users.id() == ours(NamespaceKind::User)? || network.id() == ours(NamespaceKind::Net)? {
        return Ok(false);
    }
    Ok(network.owner()?.is_none_or(|owner| owner.id() != users.id()))
}

#[cfg(test)]
mod tests {
    use ids::IdMapping;
    use ids::IdMappings;
    use serde_json::json;

    use super::*;
    use crate::isolation::{MappingsWithPath, RuntimeTraits};

    #[test]
    fn one_more_process_is_refused_where_the_runtime_would_run_it_as_the_hosts_root() {
        let line = vec![IdMapping::new(0, 1 << 20, 65_536).unwrap()];
        let runtime = RuntimeTraits {
            kind: RuntimeKind::Youki,
            joins: JoinOrder::HostsFirst,
            mappings_with_path: MappingsWithPath::Wanted,
        };
        let ids = IdMappings { uids: line.clone(), gids: line };
        let order = ExecOrder { init: std::process::id(), process: json!({"user": {}}), ids, runtime };
        let refused = join_for_exec(&order).unwrap_err();
        assert!(matches!(refused, Error::ExecEscapes { runtime: "youki" }), "{refused}");
        assert!(refused.hint().unwrap().contains("runc or crun"));
    }
}
