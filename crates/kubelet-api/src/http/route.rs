use std::borrow::Cow;

/// Paths that enableDebuggingHandlers turns off.
const DEBUGGING: [&str; 8] =
    ["run", "exec", "attach", "portForward", "containerLogs", "runningpods", "logs", "debug"];

/// What a kubelet has that this agent has not.
const UNSERVED: [&str; 4] = ["checkpoint", "debug", "flagz", "statusz"];

/// What a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// A check of the agent; empty for all of them.
    Healthz(&'a str),
    Pods,
    /// The pods of the agent's records with a container that runs. A kubelet asks the runtime.
    RunningPods,
    Metrics,
    /// Metrics of CPU and memory.
    ResourceMetrics,
    /// Metrics of containers under cAdvisor's names, as the runtime has them.
    ContainerMetrics,
    /// Metrics of probes.
    ProbeMetrics,
    /// Results of health checks.
    HealthMetrics,
    /// What the node and its pods use.
    Summary,
    /// The configuration.
    Configz,
    ContainerLogs {
        namespace: &'a str,
        pod: &'a str,
        container: &'a str,
    },
    /// One more process in a container; with its pod's UID where the path has it.
    Exec(OfContainer<'a>),
    /// The streams of a container's first process.
    Attach(OfContainer<'a>),
    /// A command that runs to its end.
    Run(OfContainer<'a>),
    PortForward(OfPod<'a>),
    /// A file of the node's logs, or a directory of them; empty for all of them.
    NodeLogs(&'a str),
    /// Debugging handlers are disabled.
    Disabled,
    /// A path of a kubelet that this agent does not serve.
    Unserved(&'static str),
    Unknown,
}

/// A pod, as a path names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OfPod<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: Option<&'a str>,
}

/// A container, as a path names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OfContainer<'a> {
    pub(super) pod: OfPod<'a>,
    pub(super) container: &'a str,
}

impl<'a> Route<'a> {
    /// The meaning of a decoded path. No segment of it may be empty, `.` or `..`, except that a slash may end it.
    pub(super) fn of(path: &'a str, has_debugging: bool) -> Self {
        let Some(path) = path.strip_prefix('/') else { return Self::Unknown };
        let path = path.strip_suffix('/').unwrap_or(path);
        let segments: Vec<&str> = path.split('/').collect();
        if segments.iter().any(|segment| ["", ".", ".."].contains(segment)) {
            return Self::Unknown;
        }
        if !has_debugging && segments.first().is_some_and(|first| DEBUGGING.contains(first)) {
            return Self::Disabled;
        }
        match segments.as_slice() {
            ["healthz"] => Self::Healthz(""),
            ["healthz", check] => Self::Healthz(check),
            ["pods"] => Self::Pods,
            ["runningpods"] => Self::RunningPods,
            ["metrics"] => Self::Metrics,
            ["metrics", "resource"] => Self::ResourceMetrics,
            ["metrics", "cadvisor"] => Self::ContainerMetrics,
            ["metrics", "probes"] => Self::ProbeMetrics,
            ["metrics", "slis"] => Self::HealthMetrics,
            ["logs"] => Self::NodeLogs(""),
            ["logs", ..] => Self::NodeLogs(path.strip_prefix("logs/").unwrap_or_default()),
            ["stats", "summary"] => Self::Summary,
            ["configz"] => Self::Configz,
            [what @ ("exec" | "attach" | "run"), namespace, pod, rest @ .., container] if rest.len() < 2 => {
                let of = OfContainer {
                    pod: OfPod { namespace, name: pod, uid: rest.first().copied() },
                    container,
                };
                match *what {
                    "exec" => Self::Exec(of),
                    "attach" => Self::Attach(of),
                    _ => Self::Run(of),
                }
            }
            ["portForward", namespace, pod, rest @ ..] if rest.len() < 2 => {
                Self::PortForward(OfPod { namespace, name: pod, uid: rest.first().copied() })
            }
            ["containerLogs", namespace, pod, container] => Self::ContainerLogs { namespace, pod, container },
            [first, ..] if let Some(name) = UNSERVED.into_iter().find(|name| name == first) => {
                Self::Unserved(name)
            }
            _ => Self::Unknown,
        }
    }
}

/// The `path` label of metrics: the first part of a path, and the second of metrics.
pub(super) fn label(path: &str) -> Cow<'static, str> {
    const KNOWN: [&str; 18] = [
        "attach",
        "checkpoint",
        "configz",
        "containerLogs",
        "debug",
        "exec",
        "flagz",
        "healthz",
        "logs",
        "metrics/cadvisor",
        "metrics/probes",
        "metrics/resource",
        "pods",
        "portForward",
        "run",
        "runningpods",
        "stats",
        "statusz",
    ];
    let mut parts = path.trim_start_matches('/').splitn(3, '/');
    let found = match (parts.next().unwrap_or_default(), parts.next()) {
        ("metrics", None) => Some("metrics"),
        ("metrics", Some(which)) => {
            KNOWN.into_iter().find(|known| known.strip_prefix("metrics/") == Some(which))
        }
        (first, _) => KNOWN.into_iter().find(|known| *known == first),
    };
    Cow::Borrowed(found.unwrap_or("other"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_matched_whole() {
        for (path, route) in [
            ("/healthz", Route::Healthz("")),
            ("/healthz/ping", Route::Healthz("ping")),
            ("/pods", Route::Pods),
            ("/pods/", Route::Pods),
            ("/metrics", Route::Metrics),
            ("/metrics/resource", Route::ResourceMetrics),
            ("/metrics/unknown", Route::Unknown),
            ("/metrics/probes", Route::ProbeMetrics),
            ("/metrics/slis", Route::HealthMetrics),
            ("/logs/", Route::NodeLogs("")),
            ("/logs/a/b.log", Route::NodeLogs("a/b.log")),
            ("/logs/../shadow", Route::Unknown),
            ("/logs//shadow", Route::Unknown),
            ("/stats/summary/", Route::Summary),
            ("/stats", Route::Unknown),
            ("/runningpods/", Route::RunningPods),
            ("/configz", Route::Configz),
            ("/checkpoint/a/b/c", Route::Unserved("checkpoint")),
            ("/debug/pprof/heap", Route::Unserved("debug")),
            ("/containerLogs/a/b/c", Route::ContainerLogs { namespace: "a", pod: "b", container: "c" }),
            ("/containerLogs/a/b", Route::Unknown),
            ("/containerLogs/a/../c", Route::Unknown),
            ("/metrics/../containerLogs/a/b/c", Route::Unknown),
            ("/metrics//", Route::Unknown),
            ("//metrics", Route::Unknown),
            ("/", Route::Unknown),
            ("metrics", Route::Unknown),
            ("*", Route::Unknown),
        ] {
            assert_eq!(Route::of(path, true), route, "{path}");
        }
    }

    #[test]
    fn sessions_may_name_the_uid_of_the_pod() {
        let pod = |uid| OfPod { namespace: "a", name: "b", uid };
        let container = |uid| OfContainer { pod: pod(uid), container: "c" };
        for (path, route) in [
            ("/exec/a/b/c", Route::Exec(container(None))),
            ("/exec/a/b/u/c", Route::Exec(container(Some("u")))),
            ("/attach/a/b/c", Route::Attach(container(None))),
            ("/run/a/b/u/c", Route::Run(container(Some("u")))),
            ("/portForward/a/b", Route::PortForward(pod(None))),
            ("/portForward/a/b/u", Route::PortForward(pod(Some("u")))),
            ("/portForward/a/b/u/c", Route::Unknown),
            ("/exec/a/b", Route::Unknown),
            ("/exec/a/b/c/d/e", Route::Unknown),
            ("/exec/a//c", Route::Unknown),
        ] {
            assert_eq!(Route::of(path, true), route, "{path}");
        }
    }

    #[test]
    fn labels_are_few() {
        for (path, expected) in [
            ("/pods", "pods"),
            ("/exec/a/b/c", "exec"),
            ("/metrics", "metrics"),
            ("/metrics/cadvisor", "metrics/cadvisor"),
            ("/metrics/cadvisor/x", "metrics/cadvisor"),
            ("/metrics/slis", "other"),
            ("/metrics/anything", "other"),
            ("/anything", "other"),
            ("/", "other"),
        ] {
            assert_eq!(label(path), expected, "{path}");
        }
    }

    #[test]
    fn debugging_can_be_disabled() {
        for path in ["/containerLogs/a/b/c", "/exec/a/b/c", "/runningpods/", "/logs/", "/debug/pprof/"] {
            assert_eq!(Route::of(path, false), Route::Disabled, "{path}");
        }
        assert_eq!(Route::of("/pods", false), Route::Pods);
    }
}
