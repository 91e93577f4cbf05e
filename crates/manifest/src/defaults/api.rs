use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Probe, ResourceRequirements, Volume};

/// The pod with the API's defaults filled in, as the API server stores it. `hostUsers` and
/// `seLinuxChangePolicy` have none: unset stays unset.
#[must_use]
pub fn defaulted(mut pod: Pod) -> Pod {
    if let Some(spec) = pod.spec.as_mut() {
        self::spec(spec);
    }
    pod
}

fn text(field: &mut Option<String>, value: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(value.to_owned());
    }
}

fn spec(spec: &mut PodSpec) {
    text(&mut spec.restart_policy, "Always");
    text(&mut spec.dns_policy, "ClusterFirst");
    text(&mut spec.scheduler_name, "default-scheduler");
    spec.termination_grace_period_seconds.get_or_insert(30);
    spec.enable_service_links.get_or_insert(true);
    spec.security_context.get_or_insert_default();
    let is_host_network = spec.host_network == Some(true);
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        self::container(container);
        if is_host_network {
            host_ports(container);
        }
    }
    spec.volumes.iter_mut().flatten().for_each(volume);
}

fn container(container: &mut Container) {
    text(&mut container.termination_message_path, "/dev/termination-log");
    text(&mut container.termination_message_policy, "File");
    let policy = pull_policy(container.image.as_deref().unwrap_or_default());
    text(&mut container.image_pull_policy, policy);
    if let Some(resources) = container.resources.as_mut() {
        requests(resources);
    }
    let probes =
        [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    probes.into_iter().flatten().for_each(probe);
    container.ports.iter_mut().flatten().for_each(|port| text(&mut port.protocol, "TCP"));
    for variable in container.env.iter_mut().flatten() {
        if let Some(field) = variable.value_from.as_mut().and_then(|v| v.field_ref.as_mut()) {
            text(&mut field.api_version, "v1");
        }
    }
}

/// An image that is named by no tag, or by `latest`, may be another one tomorrow.
fn pull_policy(image: &str) -> &'static str {
    let last = image.rsplit('/').next().unwrap_or_default();
    match last.split_once('@').map_or(last, |(name, _)| name).split_once(':') {
        _ if last.contains('@') => "IfNotPresent",
        None | Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
    }
}

/// A limit without a request is a request, too.
fn requests(resources: &mut ResourceRequirements) {
    for (name, limit) in resources.limits.clone().into_iter().flatten() {
        resources.requests.get_or_insert_default().entry(name).or_insert(limit);
    }
}

fn number(field: &mut Option<i32>, value: i32) {
    if field.unwrap_or_default() == 0 {
        *field = Some(value);
    }
}

fn probe(probe: &mut Probe) {
    number(&mut probe.timeout_seconds, 1);
    number(&mut probe.period_seconds, 10);
    number(&mut probe.success_threshold, 1);
    number(&mut probe.failure_threshold, 3);
    if let Some(get) = probe.http_get.as_mut() {
        text(&mut get.path, "/");
        text(&mut get.scheme, "HTTP");
    }
}

/// With the host's network, a container's port is the host's.
fn host_ports(container: &mut Container) {
    for port in container.ports.iter_mut().flatten() {
        number(&mut port.host_port, port.container_port);
    }
}

fn volume(volume: &mut Volume) {
    const FILES: i32 = 0o644;
    if let Some(map) = volume.config_map.as_mut() {
        map.default_mode.get_or_insert(FILES);
    }
    if let Some(secret) = volume.secret.as_mut() {
        secret.default_mode.get_or_insert(FILES);
    }
    if let Some(downward) = volume.downward_api.as_mut() {
        downward.default_mode.get_or_insert(FILES);
    }
    if let Some(projected) = volume.projected.as_mut() {
        projected.default_mode.get_or_insert(FILES);
        for source in projected.sources.iter_mut().flatten() {
            if let Some(token) = source.service_account_token.as_mut() {
                token.expiration_seconds.get_or_insert(3600);
            }
        }
    }
    if let Some(host) = volume.host_path.as_mut() {
        host.type_.get_or_insert_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_pulled_always() {
        for image in ["a", "r:5000/a", "r/a:latest"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        for image in ["a:1", "r:5000/a:1", "r/a@sha256:00", "a:latest@sha256:00"] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }
}
