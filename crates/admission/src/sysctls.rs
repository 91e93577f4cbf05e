//! Sysctls of a pod: the kubelet's safe ones, and those that the node's configuration allows.

use manifest::k8s_openapi::api::core::v1::PodSpec;

/// Sysctls that concern nothing outside of the pod's namespaces, by the kubelet's list.
const SAFE: [&str; 14] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Beginnings of the names of sysctls that each network, IPC, UTS or user namespace has for itself.
const NAMESPACED: [&str; 7] =
    ["net.", "user.", "fs.mqueue.", "kernel.shm", "kernel.msg", "kernel.sem", "kernel.domainname"];

/// The reason of a pod that a kubelet refuses for its sysctls.
pub(crate) const FORBIDDEN: &str = "SysctlForbidden";

const ALLOW: &str = "leave it out, or add it to policy.allowedUnsafeSysctls in the node's configuration";
const NEVER: &str = "leave it out: set it on the host";

/// A sysctl that the pod may not set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Forbidden {
    pub(crate) field: String,
    pub(crate) cause: String,
    pub(crate) hint: &'static str,
}

/// The sysctls of the pod that are neither safe nor allowed. An entry of `allowed` is a name, or the beginning of one
/// with `*` at its end.
pub(crate) fn forbidden(spec: &PodSpec, allowed: &[String]) -> Vec<Forbidden> {
    let all = spec.security_context.as_ref().and_then(|context| context.sysctls.as_ref());
    let all = all.into_iter().flatten();
    let found = all.filter_map(|sysctl| {
        let name = dotted(&sysctl.name);
        let (what, hint) = match name.as_str() {
            name if SAFE.contains(&name) => return None,
            name if !NAMESPACED.iter().any(|prefix| name.starts_with(prefix)) => {
                ("is a setting of the whole host", NEVER)
            }
            name if allowed.iter().any(|pattern| matches(&dotted(pattern), name)) => return None,
            _ => ("is not a safe sysctl", ALLOW),
        };
        let field = "spec.securityContext.sysctls".to_owned();
        Some(Forbidden { field, cause: format!("{FORBIDDEN}: {name} {what}"), hint })
    });
    found.collect()
}

/// Why the kubelet forbids the first sysctl of the pod that it does not allow, in its words.
pub(crate) fn not_allowed(spec: &PodSpec, allowed: &[String]) -> Option<String> {
    let all = spec.security_context.as_ref().and_then(|context| context.sysctls.as_ref());
    all.into_iter().flatten().find_map(|sysctl| {
        let name = dotted(&sysctl.name);
        let is_allowed =
            SAFE.contains(&name.as_str()) || allowed.iter().any(|pattern| matches(&dotted(pattern), &name));
        let namespace = namespace(&name).filter(|_| is_allowed);
        let shared = match namespace {
            None => return Some(format!("{name:?} not allowlisted")),
            Some(Namespace::Ipc) => spec.host_ipc == Some(true),
            Some(Namespace::Net) => spec.host_network == Some(true),
            Some(Namespace::User) => spec.host_users != Some(false),
            Some(Namespace::Uts) => false,
        };
        let namespace = namespace.map_or("", Namespace::name);
        shared.then(|| format!("{name:?} not allowed with host {namespace} enabled"))
    })
}

/// A namespace that has sysctls of its own.
#[derive(Debug, Clone, Copy)]
enum Namespace {
    Ipc,
    Net,
    User,
    Uts,
}

impl Namespace {
    fn name(self) -> &'static str {
        match self {
            Self::Ipc => "ipc",
            Self::Net => "net",
            Self::User => "user",
            Self::Uts => "uts",
        }
    }
}

/// The namespace that has this sysctl for itself; `None` for a setting of the whole host.
fn namespace(name: &str) -> Option<Namespace> {
    let prefix = NAMESPACED.into_iter().find(|prefix| name.starts_with(prefix))?;
    Some(match prefix {
        "net." => Namespace::Net,
        "user." => Namespace::User,
        "kernel.domainname" => Namespace::Uts,
        _ => Namespace::Ipc,
    })
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

/// The name of a sysctl with dots between its parts, as the API server gives it to a kubelet. If a slash comes first, slashes separate the parts and dots belong to them, as
/// in `net/ipv4/conf/eth0.100/forwarding`.
#[must_use]
pub fn dotted(name: &str) -> String {
    if name.chars().find(|c| ['.', '/'].contains(c)) != Some('/') {
        return name.to_owned();
    }
    let swapped = name.chars().map(|c| match c {
        '/' => '.',
        '.' => '/',
        other => other,
    });
    swapped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(names: &[&str], allowed: &[&str]) -> Vec<String> {
        let sysctls: Vec<_> = names.iter().map(|n| serde_json::json!({"name": n, "value": "1"})).collect();
        let spec = serde_json::json!({"containers": [], "securityContext": {"sysctls": sysctls}});
        let allowed: Vec<String> = allowed.iter().map(|&name| name.to_owned()).collect();
        let found = forbidden(&serde_json::from_value(spec).unwrap(), &allowed);
        found.into_iter().map(|f| format!("{} {}", f.field, f.cause)).collect()
    }

    /// They were set, whatever they were.
    #[test]
    fn an_unsafe_sysctl_is_forbidden_unless_the_node_allows_it() {
        assert!(causes(&["net.ipv4.tcp_syncookies", "kernel/shm_rmid_forced"], &[]).is_empty());
        let found = causes(&["net.ipv4.tcp_rmem", "kernel.msgmax"], &[]);
        let cause = "SysctlForbidden: kernel.msgmax is not a safe sysctl";
        assert_eq!(found, [format!("spec.securityContext.sysctls {cause}")]);
        assert!(
            causes(&["kernel.msgmax", "net/core/somaxconn"], &["kernel.msg*", "net.core.somaxconn"])
                .is_empty()
        );
        assert_eq!(causes(&["kernel.msgmax"], &["kernel.msg", "net.*"]).len(), 1);
    }

    #[test]
    fn what_no_namespace_has_for_itself_is_never_allowed() {
        let found = causes(&["vm.overcommit_memory"], &["*"]);
        assert!(found[0].ends_with("vm.overcommit_memory is a setting of the whole host"), "{found:?}");
    }

    #[test]
    fn a_name_with_slashes_may_have_dots_in_its_parts() {
        assert_eq!(dotted("net/ipv4/conf/eth0.100/forwarding"), "net.ipv4.conf.eth0/100.forwarding");
        assert_eq!(dotted("net.ipv4.conf.eth0/100.forwarding"), "net.ipv4.conf.eth0/100.forwarding");
    }
}
