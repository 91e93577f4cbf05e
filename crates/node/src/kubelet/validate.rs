//! The rules by which a kubelet refuses a configuration, and those of what `wardlet agent` can do.

use std::net::IpAddr;
use std::path::{Component, Path};

use ids::BlockLength;
use types::{ImagePattern, Quantity};

use super::field::Kind;
use super::fields::FIELDS;
use super::view::{View, Why};
use super::{GoDuration, Problem, tree::Node, validate_lists};

const MOST: i64 = i64::MAX;

/// Whole numbers with the least and the greatest value that they may have.
const RANGES: &[(&str, i64, i64)] = &[
    ("port", 1, 65_535),
    ("readOnlyPort", 0, 65_535),
    ("healthzPort", 0, 65_535),
    ("registryPullQPS", 0, MOST),
    ("registryBurst", 0, MOST),
    ("eventRecordQPS", 0, MOST),
    ("eventBurst", 0, MOST),
    ("oomScoreAdj", -1000, 1000),
    ("nodeLeaseDurationSeconds", 1, MOST),
    ("imageGCHighThresholdPercent", 0, 100),
    ("imageGCLowThresholdPercent", 0, 100),
    ("maxPods", 0, MOST),
    ("podsPerCore", 0, MOST),
    ("nodeStatusMaxImages", -1, MOST),
    ("maxOpenFiles", 0, MOST),
    ("kubeAPIQPS", 0, MOST),
    ("kubeAPIBurst", 0, MOST),
    ("maxParallelImagePulls", 1, MOST),
    ("iptablesMasqueradeBit", 0, 31),
    ("iptablesDropBit", 0, 31),
    ("containerLogMaxFiles", 2, MOST),
    ("containerLogMaxWorkers", 1, MOST),
    ("logging.verbosity", 0, MOST),
    ("tracing.samplingRatePerMillion", 0, 1_000_000),
];

/// Durations with the least and the greatest value that they may have, in milliseconds. All others but
/// volumeStatsAggPeriod may not be negative.
const DURATIONS: &[(&str, i64, i64)] = &[
    ("containerLogMonitorInterval", 3_000, MOST),
    ("cpuCFSQuotaPeriod", 1, 1_000),
    ("crashLoopBackOff.maxContainerRestartPeriod", 1_000, 300_000),
];
const ALLOWLIST: &str = "preloadedImagesVerificationAllowlist";
const MILLISECOND: i64 = 1_000_000;

pub(super) fn check(tree: &Node, problems: &mut Vec<Problem>) {
    let mut view = View { tree, problems };
    ranges(&mut view);
    durations(&mut view);
    server(&mut view);
    images(&mut view);
    shutdown(&mut view);
    cgroups(&mut view);
    logs(&mut view);
    user_namespaces(&mut view);
    gated(&mut view);
    validate_lists::check(&mut view);
}

fn ranges(view: &mut View<'_>) {
    for (path, least, most) in RANGES {
        let Some(number) = view.int(path).filter(|number| number < least || number > most) else { continue };
        let range = if *most == MOST { format!("{least} or more") } else { format!("{least} to {most}") };
        view.invalid(path, format!("{number} is out of range"), format!("use {range}"));
    }
}

fn durations(view: &mut View<'_>) {
    let fields = FIELDS.iter().filter(|field| field.kind == Kind::Duration);
    for path in fields.map(|field| field.path).filter(|path| *path != "volumeStatsAggPeriod") {
        let found = view.duration(path);
        let limits = DURATIONS.iter().find(|(name, ..)| *name == path);
        let (least, most) = limits.map_or((0, MOST), |(_, least, most)| (*least, *most));
        let in_nanoseconds =
            |milliseconds: i64| GoDuration::from_nanoseconds(milliseconds.saturating_mul(MILLISECOND));
        let (shortest, longest) = (in_nanoseconds(least), in_nanoseconds(most));
        if found >= shortest && found <= longest {
            continue;
        }
        let range =
            if most == MOST { format!("{shortest} or more") } else { format!("{shortest} to {longest}") };
        view.invalid(path, format!("{found} is out of range"), format!("use {range}"));
    }
}

fn server(view: &mut View<'_>) {
    for path in ["address", "healthzBindAddress"] {
        let text = view.text(path);
        if text.parse::<IpAddr>().is_err() {
            let cause = format!("{text:?} is no IP address");
            view.invalid(path, cause, "use an address such as 0.0.0.0 or ::");
        }
    }
    let (cert, key) = (view.text("tlsCertFile").is_empty(), view.text("tlsPrivateKeyFile").is_empty());
    if cert != key {
        let (path, other) =
            if cert { ("tlsPrivateKeyFile", "tlsCertFile") } else { ("tlsCertFile", "tlsPrivateKeyFile") };
        view.invalid(path, format!("it is set without {other}"), "set both or neither");
    }
    if view.bool("serverTLSBootstrap") && !view.is_gate_on("RotateKubeletServerCertificate") {
        let cause = "the feature gate RotateKubeletServerCertificate is off";
        view.invalid("serverTLSBootstrap", cause, "turn the gate on, or serverTLSBootstrap off");
    }
}

fn images(view: &mut View<'_>) {
    let (low, high) = (view.int("imageGCLowThresholdPercent"), view.int("imageGCHighThresholdPercent"));
    if low >= high {
        let show = |percent: Option<i64>| percent.unwrap_or_default();
        let cause = format!(
            "imageGCLowThresholdPercent, {}, is not less than imageGCHighThresholdPercent, {}",
            show(low),
            show(high)
        );
        // The high threshold alone may be set, below the default of the low one.
        let path = if view.is_set("imageGCLowThresholdPercent") {
            "imageGCLowThresholdPercent"
        } else {
            "imageGCHighThresholdPercent"
        };
        view.invalid(path, cause, "set both, the low one below the high one");
    }
    let (least, most) = (view.duration("imageMinimumGCAge"), view.duration("imageMaximumGCAge"));
    if most > GoDuration::default() && most <= least {
        let cause = format!("{most} is not more than imageMinimumGCAge, {least}");
        view.invalid("imageMaximumGCAge", cause, "use more than imageMinimumGCAge, or 0s for no limit");
    }
    let parallel = view.int("maxParallelImagePulls").is_some_and(|number| number > 1);
    if parallel && view.bool("serializeImagePulls") {
        let cause = "it is more than 1, and serializeImagePulls is true";
        view.invalid("maxParallelImagePulls", cause, "set serializeImagePulls to false in the same file");
    }
    let allowed = view.texts(ALLOWLIST);
    let policy = "imagePullCredentialsVerificationPolicy";
    if !allowed.is_empty() && view.text(policy) != "NeverVerifyAllowlistedImages" {
        let cause = format!("{policy} is not NeverVerifyAllowlistedImages");
        view.invalid(ALLOWLIST, cause, format!("set {policy} to that, or leave this out"));
    }
    for (at, text) in allowed {
        if let Err(error) = ImagePattern::parse(&text) {
            let hint = "use full names of repositories, such as registry.example/team/app, or registry.example/team/*";
            view.invalid_at(at, ALLOWLIST, Why::new(error.to_string(), hint));
        }
    }
}

fn shutdown(view: &mut View<'_>) {
    const ALL: &str = "shutdownGracePeriod";
    const CRITICAL: &str = "shutdownGracePeriodCriticalPods";
    const BY_PRIORITY: &str = "shutdownGracePeriodByPodPriority";
    let (all, critical) = (view.duration(ALL), view.duration(CRITICAL));
    let (zero, second) = (GoDuration::default(), GoDuration::from_seconds(1));
    for (path, found) in [(ALL, all), (CRITICAL, critical)] {
        if found > zero && found < second {
            view.invalid(path, format!("{found} is less than a second"), "use 1s or more, or 0s for none");
        }
    }
    if critical > all {
        let cause = format!("{critical} is more than shutdownGracePeriod, {all}, which it is a part of");
        view.invalid(CRITICAL, cause, "use shutdownGracePeriod or less");
    }
    let has_period = all > zero || critical > zero;
    if has_period && !view.is_gate_on("GracefulNodeShutdown") {
        view.invalid(
            ALL,
            "the feature gate GracefulNodeShutdown is off",
            "turn the gate on, or leave this out",
        );
    }
    if view.is_set(BY_PRIORITY) && has_period {
        let cause = "it is set beside shutdownGracePeriod";
        view.invalid(BY_PRIORITY, cause, "set one of the two");
    }
    if view.is_set(BY_PRIORITY) && !view.is_gate_on("GracefulNodeShutdownBasedOnPodPriority") {
        let cause = "the feature gate GracefulNodeShutdownBasedOnPodPriority is off";
        view.invalid(BY_PRIORITY, cause, "turn the gate on, or leave this out");
    }
}

fn cgroups(view: &mut View<'_>) {
    let root = view.text("cgroupRoot");
    if !root.is_empty() && !root.starts_with('/') {
        let cause = format!("{root:?} is not absolute");
        view.invalid("cgroupRoot", cause, "begin with / , the root of the cgroup hierarchy");
    }
    let cpus = view.text("reservedSystemCPUs");
    if cpus.is_empty() {
        return;
    }
    if !is_cpu_list(cpus) {
        let cause = format!("{cpus:?} is no list of processors");
        view.invalid("reservedSystemCPUs", cause, "write numbers and ranges, such as 0-1,4");
    }
    for path in ["systemReservedCgroup", "kubeReservedCgroup"] {
        if !view.text(path).is_empty() {
            let cause = format!("it is set beside {path}");
            view.invalid("reservedSystemCPUs", cause, "set one of the two");
        }
    }
}

fn is_cpu_list(text: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().ok();
    text.split(',').all(|part| match part.split_once('-') {
        Some((first, last)) => matches!((number(first), number(last)), (Some(f), Some(l)) if f <= l),
        None => number(part).is_some(),
    })
}

fn logs(view: &mut View<'_>) {
    let directory = view.text("podLogsDir");
    let path = Path::new(directory);
    let normal = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let rebuilt: std::path::PathBuf = path.components().collect();
    if !path.is_absolute() || !normal || rebuilt.as_os_str() != path.as_os_str() || !directory.is_ascii() {
        let cause =
            format!("{directory:?} is no absolute path in ASCII without ., .., // and a / at its end");
        view.invalid("podLogsDir", cause, "leave it out for its default, /var/log/pods");
    }
    let size = view.text("containerLogMaxSize");
    if let Err(e) = size.parse::<Quantity>() {
        view.invalid("containerLogMaxSize", e.to_string(), "leave it out for its default, 10Mi");
    }
}

fn user_namespaces(view: &mut View<'_>) {
    const PATH: &str = "userNamespaces.idsPerPod";
    let Some(length) = view.int(PATH) else { return };
    let Err(e) = BlockLength::try_from(u64::try_from(length).unwrap_or(0)) else { return };
    let hint = if e.below == e.above {
        format!("use {}", e.below)
    } else {
        format!("use {} or {}", e.below, e.above)
    };
    view.invalid(PATH, format!("{length} is no multiple of 65536 from 65536 on"), hint);
}

/// Fields that need a gate which may be off.
fn gated(view: &mut View<'_>) {
    for (path, gate, default) in [
        ("crashLoopBackOff.maxContainerRestartPeriod", "KubeletCrashLoopBackOffMax", None),
        ("imagePullCredentialsVerificationPolicy", "KubeletEnsureSecretPulledImages", None),
        (
            "cpuCFSQuotaPeriod",
            "CustomCPUCFSQuotaPeriod",
            Some(GoDuration::from_nanoseconds(100 * MILLISECOND)),
        ),
    ] {
        let is_default = default.is_some_and(|default| view.duration(path) == default);
        if view.is_set(path) && !is_default && !view.is_gate_on(gate) {
            view.invalid(
                path,
                format!("the feature gate {gate} is off"),
                "turn the gate on, or leave this out",
            );
        }
    }
}
