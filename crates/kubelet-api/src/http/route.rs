use std::borrow::Cow;

/// Paths that enableDebuggingHandlers turns off.
const DEBUGGING: [&str; 8] =
    ["run", "exec", "attach", "portForward", "containerLogs", "runningpods", "logs", "debug"];

/// What a kubelet has that this agent has not.
const UNSERVED: [&str; 5] = ["checkpoint", "debug", "flagz", "logs", "statusz"];

/// Where the page of this node is.
const PAGE: &str = "wardlet";

/// What a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// A check of the agent; empty for all of them.
    Healthz(&'a str),
    Pods,
    /// The pods that the runtime has.
    RunningPods,
    Metrics,
    /// Metrics of CPU and memory.
    ResourceMetrics,
    /// Metrics of containers under cAdvisor's names.
    ContainerMetrics,
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
    /// The page of this node, and what is below it: the rest of the path.
    Page(&'a str),
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
        if let Some(rest) = path.strip_prefix(PAGE).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            return Self::Page(rest);
        }
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

/// The `path` label of metrics.
pub(super) fn label(path: &str) -> Cow<'static, str> {
    const KNOWN: [&str; 11] = [
        "attach",
        "checkpoint",
        "configz",
        "containerLogs",
        "exec",
        "healthz",
        "logs",
        "metrics",
        "pods",
        "portForward",
        "stats",
    ];
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    let known = KNOWN.into_iter().find(|known| *known == first);
    Cow::Borrowed(known.unwrap_or("other"))
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
            ("/stats/summary/", Route::Summary),
            ("/stats", Route::Unknown),
            ("/runningpods/", Route::RunningPods),
            ("/configz", Route::Configz),
            ("/checkpoint/a/b/c", Route::Unserved("checkpoint")),
            ("/debug/pprof/heap", Route::Unserved("debug")),
            ("/containerLogs/a/b/c", Route::ContainerLogs { namespace: "a", pod: "b", container: "c" }),
            ("/containerLogs/a/b", Route::Unknown),
            ("/wardlet", Route::Page("")),
            ("/wardlet/", Route::Page("/")),
            ("/wardlet/data.json", Route::Page("/data.json")),
            ("/wardlets", Route::Unknown),
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
    fn debugging_can_be_disabled() {
        for path in ["/containerLogs/a/b/c", "/exec/a/b/c", "/runningpods/", "/logs/", "/debug/pprof/"] {
            assert_eq!(Route::of(path, false), Route::Disabled, "{path}");
        }
        assert_eq!(Route::of("/pods", false), Route::Pods);
    }
}
