use k8s_openapi::api::core::v1::{HTTPGetAction, LifecycleHandler, Probe};

use super::containers::{Member, Role};
use super::pod::Pod;
use super::ports;
use super::report::{Report, each};
use crate::place::Path;

/// How long a pod's containers have to end, which no hook may sleep longer.
fn grace_period(pod: &Pod<'_>) -> i64 {
    let seconds = pod.spec.termination_grace_period_seconds.unwrap_or(30);
    // The server takes a pod's negative one for the shortest.
    if pod.is_pod && seconds < 0 { 1 } else { seconds }
}

pub(super) fn all(report: &mut Report<'_>, path: &Path<'_>, member: Member<'_>, pod: &Pod<'_>) {
    let Member { container, role } = member;
    let list = [
        ("livenessProbe", container.liveness_probe.as_ref()),
        ("readinessProbe", container.readiness_probe.as_ref()),
        ("startupProbe", container.startup_probe.as_ref()),
    ];
    for (field, found) in list {
        let path = path.field(field);
        match (found, role) {
            (Some(_), Role::Init) => {
                report.forbidden(&path, "only in an init container with restartPolicy: Always");
            }
            (Some(found), _) => probe(report, &path, field, found),
            (None, _) => {}
        }
    }
    lifecycle(report, &path.field("lifecycle"), member, pod);
}

fn probe(report: &mut Report<'_>, path: &Path<'_>, field: &str, probe: &Probe) {
    report.just_one(
        path,
        &[
            ("exec", probe.exec.is_some()),
            ("httpGet", probe.http_get.is_some()),
            ("tcpSocket", probe.tcp_socket.is_some()),
            ("grpc", probe.grpc.is_some()),
        ],
    );
    let numbers = [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ];
    for (name, number) in numbers {
        report.natural(&path.field(name), number);
    }
    if field != "readinessProbe" && probe.success_threshold.is_some_and(|n| n > 1) {
        report.invalid(
            &path.field("successThreshold"),
            probe.success_threshold.unwrap_or_default(),
            "must be 1",
        );
    }
    grace(report, &path.field("terminationGracePeriodSeconds"), field, probe);
    handler(report, path, probe);
}

fn grace(report: &mut Report<'_>, path: &Path<'_>, field: &str, probe: &Probe) {
    match probe.termination_grace_period_seconds {
        Some(_) if field == "readinessProbe" => report.invalid(path, "set", "not in a readinessProbe"),
        Some(seconds) if seconds <= 0 => report.invalid(path, seconds, "must be greater than 0"),
        _ => {}
    }
}

fn handler(report: &mut Report<'_>, path: &Path<'_>, probe: &Probe) {
    if let Some(exec) = probe.exec.as_ref() {
        command(report, &path.field("exec"), exec.command.as_ref());
    }
    if let Some(get) = probe.http_get.as_ref() {
        http_get(report, &path.field("httpGet"), get);
    }
    if let Some(tcp) = probe.tcp_socket.as_ref() {
        ports::number_or_name(report, &path.field("tcpSocket").field("port"), &tcp.port);
    }
    if let Some(grpc) = probe.grpc.as_ref() {
        ports::number(report, &path.field("grpc").field("port"), grpc.port);
    }
}

fn command(report: &mut Report<'_>, path: &Path<'_>, command: Option<&Vec<String>>) {
    if command.is_none_or(Vec::is_empty) {
        report.required(&path.field("command"));
    }
}

fn http_get(report: &mut Report<'_>, path: &Path<'_>, get: &HTTPGetAction) {
    ports::number_or_name(report, &path.field("port"), &get.port);
    report.one_of(&path.field("scheme"), get.scheme.as_ref(), &["HTTP", "HTTPS"]);
    for (index, header) in each(get.http_headers.as_ref()) {
        report.needs(&path.field("httpHeaders").index(index).field("name"), &header.name, header_name);
    }
}

fn header_name(name: &str) -> Result<(), &'static str> {
    let holds = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if holds { Ok(()) } else { Err("must be letters, digits and '-'") }
}

fn lifecycle(report: &mut Report<'_>, path: &Path<'_>, member: Member<'_>, pod: &Pod<'_>) {
    let Some(found) = member.container.lifecycle.as_ref() else { return };
    // A stop signal alone is dropped under the server's default gates.
    let is_signal = found.stop_signal.is_some() && found.post_start.is_none() && found.pre_stop.is_none();
    if member.role == Role::Init && !is_signal {
        return report.forbidden(path, "only in an init container with restartPolicy: Always");
    }
    let hooks = [("postStart", found.post_start.as_ref()), ("preStop", found.pre_stop.as_ref())];
    for (field, hook) in hooks {
        if let Some(hook) = hook {
            self::hook(report, &path.field(field), hook, pod);
        }
    }
    let signal = found.stop_signal.as_ref();
    report.may(&path.field("stopSignal"), signal, signal_name);
}

fn signal_name(name: &str) -> Result<(), &'static str> {
    let holds = name.starts_with("SIG")
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b"+-".contains(&b));
    if holds { Ok(()) } else { Err("must be a signal, such as SIGTERM") }
}

fn hook(report: &mut Report<'_>, path: &Path<'_>, hook: &LifecycleHandler, pod: &Pod<'_>) {
    report.just_one(
        path,
        &[
            ("exec", hook.exec.is_some()),
            ("httpGet", hook.http_get.is_some()),
            ("tcpSocket", hook.tcp_socket.is_some()),
            ("sleep", hook.sleep.is_some()),
        ],
    );
    if let Some(exec) = hook.exec.as_ref() {
        command(report, &path.field("exec"), exec.command.as_ref());
    }
    if let Some(get) = hook.http_get.as_ref() {
        http_get(report, &path.field("httpGet"), get);
    }
    if let Some(socket) = hook.tcp_socket.as_ref() {
        ports::number_or_name(report, &path.field("tcpSocket").field("port"), &socket.port);
    }
    if let Some(sleep) = hook.sleep.as_ref().filter(|s| !(0..=grace_period(pod)).contains(&s.seconds)) {
        report.invalid(
            &path.field("sleep").field("seconds"),
            sleep.seconds,
            "must be from 0 to the pod's terminationGracePeriodSeconds",
        );
    }
}
