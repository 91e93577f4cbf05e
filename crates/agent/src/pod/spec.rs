//! Conversion of a pod of the API to the pod of `lifecycle`.

use std::time::Duration;

use lifecycle::{
    Container, ContainerName, ContainerRestart, Malformed, Network, Pod, Probe, RestartPolicy, RestartRule,
    Spec,
};
use manifest::k8s_openapi::api::core::v1::{self as api, PodSpec};

use crate::cri::marks::Marks;
use crate::pod::context::ephemeral;

pub(crate) fn lowered(spec: &PodSpec, marks: &Marks) -> Result<Pod, Malformed> {
    Pod::new(lifecycle_spec(spec, marks)?)
}

pub(crate) fn lifecycle_spec(spec: &PodSpec, marks: &Marks) -> Result<Spec, Malformed> {
    let container = |one: &api::Container| container(one, marks);
    Ok(Spec {
        restart: policy(spec.restart_policy.as_deref()),
        init: spec.init_containers.iter().flatten().map(container).collect::<Result<_, _>>()?,
        containers: spec.containers.iter().map(container).collect::<Result<_, _>>()?,
        ephemeral: ephemeral(spec).iter().map(container).collect::<Result<_, _>>()?,
        grace: grace(spec),
        active_deadline: spec.active_deadline_seconds.map(seconds),
        readiness_gates: spec.readiness_gates.iter().flatten().map(|g| g.condition_type.clone()).collect(),
        network: if spec.host_network == Some(true) { Network::Host } else { Network::Own },
    })
}

/// The grace period between SIGTERM and SIGKILL.
pub(crate) fn grace(spec: &PodSpec) -> Duration {
    seconds(spec.termination_grace_period_seconds.unwrap_or(30))
}

fn seconds(number: impl Into<i64>) -> Duration {
    Duration::from_secs(u64::try_from(number.into()).unwrap_or(0))
}

fn policy(name: Option<&str>) -> RestartPolicy {
    match name {
        Some("Never") => RestartPolicy::Never,
        Some("OnFailure") => RestartPolicy::OnFailure,
        _ => RestartPolicy::Always,
    }
}

fn container(container: &api::Container, marks: &Marks) -> Result<Container, Malformed> {
    let hooks = container.lifecycle.as_ref();
    Ok(Container {
        name: ContainerName::new(container.name.as_str())?,
        revision: marks.revision(container),
        restart: restart(container),
        startup: container.startup_probe.as_ref().map(probe),
        liveness: container.liveness_probe.as_ref().map(probe),
        readiness: container.readiness_probe.as_ref().map(probe),
        post_start: hooks.is_some_and(|hooks| hooks.post_start.is_some()),
        pre_stop: hooks.is_some_and(|hooks| hooks.pre_stop.is_some()),
    })
}

fn restart(container: &api::Container) -> Option<ContainerRestart> {
    let policy = policy(Some(container.restart_policy.as_deref()?));
    let codes = container.restart_policy_rules.iter().flatten().filter_map(|rule| rule.exit_codes.as_ref());
    let rules = codes.map(|codes| {
        let values = codes.values.clone().unwrap_or_default();
        if codes.operator == "In" { RestartRule::In(values) } else { RestartRule::NotIn(values) }
    });
    Some(ContainerRestart { policy, rules: rules.collect() })
}

fn probe(probe: &api::Probe) -> Probe {
    let count = |number: Option<i32>, default| number.and_then(|n| u32::try_from(n).ok()).unwrap_or(default);
    Probe {
        initial_delay: seconds(probe.initial_delay_seconds.unwrap_or(0)),
        period: seconds(probe.period_seconds.unwrap_or(10)),
        timeout: seconds(probe.timeout_seconds.unwrap_or(1)),
        success_threshold: count(probe.success_threshold, 1),
        failure_threshold: count(probe.failure_threshold, 3),
        grace: probe.termination_grace_period_seconds.map(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(text: &str) -> PodSpec {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn an_init_container_that_always_restarts_is_a_sidecar() {
        let text = r#"{"restartPolicy":"Never","terminationGracePeriodSeconds":7,
            "initContainers":[{"name":"a","restartPolicy":"Always"},{"name":"b"}],
            "containers":[{"name":"c","readinessProbe":{"periodSeconds":2,"failureThreshold":5}}]}"#;
        let pod = lowered(&pod(text), &Marks::Own).unwrap();
        let roles: Vec<_> = pod.each().map(|(role, c)| (role, c.name.as_str().to_owned())).collect();
        use lifecycle::Role;
        let expected = [(Role::Sidecar, "a"), (Role::Init, "b"), (Role::Regular, "c")];
        assert_eq!(roles, expected.map(|(role, name)| (role, name.to_owned())));
        assert_eq!((pod.spec().restart, pod.spec().grace), (RestartPolicy::Never, Duration::from_secs(7)));
        let probe = pod.spec().containers[0].readiness.clone().unwrap();
        assert_eq!(
            (probe.period, probe.failure_threshold, probe.success_threshold),
            (Duration::from_secs(2), 5, 1)
        );
    }

    #[test]
    fn the_numbers_of_probes_and_the_rules_of_restarts_are_taken_over() {
        let text = r#"{"containers":[{"name":"a","restartPolicy":"Never","restartPolicyRules":[
            {"action":"Restart","exitCodes":{"operator":"In","values":[3,4]}},
            {"action":"Restart","exitCodes":{"operator":"NotIn","values":[5]}}],
            "livenessProbe":{"initialDelaySeconds":1,"periodSeconds":2,"timeoutSeconds":3,"successThreshold":1,
            "failureThreshold":5,"terminationGracePeriodSeconds":6}}]}"#;
        let found = lowered(&pod(text), &Marks::Own).unwrap().spec().containers[0].clone();
        let rules = vec![RestartRule::In(vec![3, 4]), RestartRule::NotIn(vec![5])];
        assert_eq!(found.restart, Some(ContainerRestart { policy: RestartPolicy::Never, rules }));
        let seconds = Duration::from_secs;
        let expected = Probe {
            initial_delay: seconds(1),
            period: seconds(2),
            timeout: seconds(3),
            success_threshold: 1,
            failure_threshold: 5,
            grace: Some(seconds(6)),
        };
        assert_eq!(found.liveness, Some(expected));
    }
}
