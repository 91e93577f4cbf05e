use kernel::{NamespaceKind, NetworkVisit, Process};

use super::{Error, ExecOrder, JoinOrder, Result, RuntimeKind, stdio};

/// The namespaces that this process is in for the sake of a runtime that runs one more process, until dropped.
#[derive(Debug)]
#[must_use = "dropped, it takes the process back"]
pub struct Joined(#[allow(dead_code, reason = "held for what its end does")] Option<NetworkVisit>);

/// Makes this process one in which the runtime can run one more process in a container that is there: its
/// standard streams are the container's user's, and it is in the pod's network where the runtime cannot go
/// there by itself.
pub fn join_for_exec(order: &ExecOrder) -> Result<Joined> {
    if order.runtime.kind.leaves_users_at_exec() {
        return Err(Error::ExecEscapes { runtime: "youki" });
    }
    stdio::give(&order.process, &order.ids)?;
    // runc goes where its own record of the container says. One before 1.2 was told nothing of the network, and the one
    // that reads its record may be newer.
    if order.runtime.joins == JoinOrder::HostsFirst && order.runtime.kind != RuntimeKind::Runc {
        return Ok(Joined(None));
    }
    let init = Process::open(order.init)?;
    let (network, users) = (init.namespace(NamespaceKind::Net)?, init.namespace(NamespaceKind::User)?);
    // One that belongs to the pod's users is one that the runtime can join, and has in its own records.
    let own = network.owner()?.is_some_and(|owner| owner.id() == users.id());
    let visit = if own { None } else { Some(NetworkVisit::to(&network)?) };
    Ok(Joined(visit))
}

/// Whether this process has users of its own.
pub fn has_users_of_its_own(init: u32) -> Result<bool> {
    let users = |process: Process| process.namespace(NamespaceKind::User).map(|namespace| namespace.id());
    Ok(users(Process::own()?)? != users(Process::open(init)?)?)
}

/// Whether this process has users of its own, and a network that is neither theirs nor the host's: one that a runtime
/// which joins the users first does not get into.
pub fn is_on_a_network_of_the_hosts(init: u32) -> Result<bool> {
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
    use bundle::IdLines;
    use ids::IdMapping;
    use serde_json::json;

    use super::*;
    use crate::ward::{MappingsWithPath, RuntimeTraits};

    #[test]
    fn one_more_process_is_refused_where_the_runtime_would_run_it_as_the_hosts_root() {
        let line = vec![IdMapping::new(0, 1 << 20, 65_536).unwrap()];
        let runtime = RuntimeTraits {
            kind: RuntimeKind::Youki,
            joins: JoinOrder::HostsFirst,
            mappings_with_path: MappingsWithPath::Wanted,
        };
        let ids = IdLines { uids: line.clone(), gids: line };
        let order = ExecOrder { init: std::process::id(), process: json!({"user": {}}), ids, runtime };
        let refused = join_for_exec(&order).unwrap_err();
        assert!(matches!(refused, Error::ExecEscapes { runtime: "youki" }), "{refused}");
        assert!(refused.hint().unwrap().contains("runc or crun"));
    }
}
