//! What a request wants to do, in the words of RBAC: a verb on subresources of `nodes`.

/// Paths with subresources of their own, which are asked before `proxy`.
const FINE: [(&str, &str); 6] = [
    ("/allocatedpods", "pods"),
    ("/pods", "pods"),
    ("/healthz", "healthz"),
    ("/configz", "configz"),
    ("/runningpods", "pods"),
    // Ours: the page of this node is about its pods.
    ("/wardlet", "pods"),
];
/// Paths with a subresource instead of `proxy`.
const INSTEAD: [(&str, &str); 6] = [
    ("/stats", "stats"),
    ("/metrics", "metrics"),
    ("/logs", "log"),
    ("/checkpoint", "checkpoint"),
    ("/statusz", "statusz"),
    ("/flagz", "configz"),
];

/// Paths that start processes or reach into pods, also with GET, as WebSockets have it. Reading is not enough for them.
const SESSIONS: [&str; 4] = ["/exec", "/attach", "/portForward", "/run"];

/// A verb on subresources of this node; one that is allowed suffices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Empty for a method that Kubernetes has no verb for.
    pub(crate) verb: &'static str,
    /// In the order in which they are asked.
    pub(crate) subresources: Vec<&'static str>,
}

impl Attributes {
    /// The attributes of a request with this method for this decoded path.
    pub(crate) fn of(method: &str, path: &str) -> Self {
        let is_session = SESSIONS.iter().any(|prefix| is_below(path, prefix));
        let verb = match method {
            "GET" if is_session => "create",
            "POST" => "create",
            "GET" => "get",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "",
        };
        let find = |table: &[(&'static str, &'static str)]| {
            table.iter().find(|(prefix, _)| is_below(path, prefix)).map(|(_, subresource)| *subresource)
        };
        let mut subresources = Vec::from_iter(find(&FINE));
        subresources.push(find(&INSTEAD).unwrap_or("proxy"));
        Self { verb, subresources }
    }
}

fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_the_subresources_of_upstream() {
        for (path, subresources) in [
            ("/healthz", &["healthz", "proxy"][..]),
            ("/healthz/ping", &["healthz", "proxy"]),
            ("/pods", &["pods", "proxy"]),
            ("/pods/", &["pods", "proxy"]),
            ("/allocatedpods/a/b", &["pods", "proxy"]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/wardlet/data.json", &["pods", "proxy"]),
            ("/flagz", &["configz"]),
            ("/statusz", &["statusz"]),
            ("/stats/summary", &["stats"]),
            ("/metrics", &["metrics"]),
            ("/metrics/cadvisor", &["metrics"]),
            ("/logs/syslog", &["log"]),
            ("/checkpoint/a/b/c", &["checkpoint"]),
            ("/containerLogs/a/b/c", &["proxy"]),
            ("/exec/a/b/c", &["proxy"]),
            ("/run/a/b/c", &["proxy"]),
            ("/metricsandmore", &["proxy"]),
            ("/podsx", &["proxy"]),
            ("/", &["proxy"]),
            ("", &["proxy"]),
            ("/unknown", &["proxy"]),
        ] {
            assert_eq!(Attributes::of("GET", path).subresources, subresources, "{path}");
        }
    }

    #[test]
    fn who_may_only_read_may_not_run_a_command_by_a_web_socket() {
        for path in ["/exec/a/b/c", "/attach/a/b/c", "/portForward/a/b", "/run/a/b/c"] {
            assert_eq!(Attributes::of("GET", path).verb, "create", "{path}");
        }
        for path in ["/containerLogs/a/b/c", "/runningpods/", "/execs", "/pods"] {
            assert_eq!(Attributes::of("GET", path).verb, "get", "{path}");
        }
    }

    #[test]
    fn each_method_has_its_verb_and_unknown_ones_none() {
        let verbs =
            ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "get"].map(|m| Attributes::of(m, "/").verb);
        assert_eq!(verbs, ["get", "create", "update", "patch", "delete", "", ""]);
    }
}
