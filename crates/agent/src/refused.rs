//! What a pod may ask for and is not run here: said before anything is made, never left out in silence.

use manifest::k8s_openapi::api::core::v1::{Container, HTTPGetAction, PodSpec};

use crate::error::{Error, Result};

/// # Errors
/// At the first thing that is not run.
pub(crate) fn check(spec: &PodSpec) -> Result<()> {
    let not_run = |field: String, what: &str, hint| Err(Error::NotRun { field, what: what.to_owned(), hint });
    if spec.ephemeral_containers.iter().flatten().next().is_some() {
        let hint = "use `wardlet exec` to look into a pod";
        return not_run("spec.ephemeralContainers".to_owned(), "an ephemeral container", hint);
    }
    if spec.set_hostname_as_fqdn == Some(true) || spec.hostname_override.is_some() {
        let hint = "set spec.hostname instead";
        return not_run("spec".to_owned(), "setHostnameAsFQDN or hostnameOverride", hint);
    }
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        let field = |name: &str| format!("container {:?}: {name}", container.name);
        if asks_over_tls(container) {
            let hint = "use scheme HTTP, or a tcpSocket or exec probe";
            return not_run(field("httpGet.scheme"), "HTTPS in probes and hooks", hint);
        }
        let variables = container.env.iter().flatten().filter_map(|v| v.value_from.as_ref());
        if variables.into_iter().any(|from| from.file_key_ref.is_some()) {
            let hint = "use configMapKeyRef, secretKeyRef, fieldRef or resourceFieldRef";
            return not_run(field("env.valueFrom.fileKeyRef"), "a variable from a file", hint);
        }
        if container.volume_devices.iter().flatten().next().is_some() {
            return not_run(field("volumeDevices"), "a block device", "mount the volume's filesystem");
        }
    }
    Ok(())
}

fn asks_over_tls(container: &Container) -> bool {
    let probes = [&container.startup_probe, &container.liveness_probe, &container.readiness_probe];
    let of_probes = probes.into_iter().flatten().filter_map(|probe| probe.http_get.as_ref());
    let hooks = container.lifecycle.iter().flat_map(|l| [&l.post_start, &l.pre_stop]).flatten();
    let of_hooks = hooks.filter_map(|hook| hook.http_get.as_ref());
    let is_tls = |get: &HTTPGetAction| get.scheme.as_deref().is_some_and(|s| s.eq_ignore_ascii_case("https"));
    of_probes.chain(of_hooks).any(is_tls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(container: &str) -> Option<String> {
        let text = format!(r#"{{"containers":[{{"name":"a"{container}}}]}}"#);
        check(&serde_json::from_str(&text).unwrap()).err().map(|e| e.to_string())
    }

    #[test]
    fn what_is_not_run_is_refused_by_name() {
        assert_eq!(refusal(""), None);
        assert_eq!(refusal(r#","readinessProbe":{"httpGet":{"port":80,"scheme":"HTTP"}}"#), None);
        let tls = refusal(r#","readinessProbe":{"httpGet":{"port":443,"scheme":"HTTPS"}}"#).unwrap();
        assert_eq!(tls, "container \"a\": httpGet.scheme: HTTPS in probes and hooks is not run here");
        let hook = r#","lifecycle":{"preStop":{"httpGet":{"port":443,"scheme":"HTTPS"}}}"#;
        assert!(refusal(hook).unwrap().contains("HTTPS"));
        assert!(refusal(r#","volumeDevices":[{"name":"d","devicePath":"/dev/x"}]"#).is_some());
    }
}
