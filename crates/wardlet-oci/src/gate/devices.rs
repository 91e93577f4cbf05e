//! Refuses privileged containers. A device that a configuration names is created for the container, with an owner from
//! the pod's block. A container with access to every device of the host is privileged, which excludes a user namespace.

use serde_json::Value;

use super::Refusal;
use super::rules::{list, text};

/// The annotation with which CRI-O marks the sandbox of a pod with privileged containers. containerd has none: there,
/// each privileged container is refused by its device rules.
const CRIO_PRIVILEGED: &str = "io.kubernetes.cri-o.PrivilegedRuntime";

pub(super) fn check(spec: &Value) -> Result<(), Refusal> {
    let annotation = spec.get("annotations").and_then(|all| all.get(CRIO_PRIVILEGED));
    if annotation.and_then(Value::as_str) == Some("true") {
        let cause = "privileged: the pod asks for a user namespace and for privileged containers";
        let hint = "remove one of the two; name the capabilities that it needs instead of privileged";
        return Err(Refusal::hinted(format!("annotations.{CRIO_PRIVILEGED}"), cause, hint));
    }
    if list(spec, "/linux/resources/devices").any(allows_all) {
        let cause = "privileged: the pod asks for a user namespace and for every device of the host";
        let hint = "remove one of the two; name the capabilities that it needs instead of privileged";
        return Err(Refusal::hinted("linux.resources.devices", cause, hint));
    }
    Ok(())
}

/// Whether a device cgroup rule allows all devices of all types.
fn allows_all(rule: &Value) -> bool {
    let unset = |key: &str| rule.get(key).is_none_or(|v| v.is_null() || v.as_i64().is_some_and(|n| n < 0));
    let any_type = ["", "a"].contains(&text(rule, "type"));
    rule.get("allow").and_then(Value::as_bool) == Some(true) && any_type && unset("major") && unset("minor")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(linux: &str) -> Option<String> {
        let spec = format!("{{\"linux\":{linux}}}");
        check(&serde_json::from_str(&spec).unwrap()).err().map(|e| e.cause)
    }

    #[test]
    fn privileged_is_told_by_its_rule_for_every_device() {
        assert!(
            refused(r#"{"resources":{"devices":[{"allow":true,"access":"rwm"}]}}"#)
                .unwrap()
                .contains("privileged")
        );
        assert!(
            refused(r#"{"resources":{"devices":[{"allow":true,"type":"a","major":-1,"access":"rwm"}]}}"#)
                .is_some()
        );
        for usual in [
            r#"{"resources":{"devices":[{"allow":false,"access":"rwm"},{"allow":true,"type":"c","major":1,"minor":3}]}}"#,
            r#"{"resources":{"devices":[{"allow":true,"type":"c","access":"m"}]}}"#,
            "{}",
        ] {
            assert_eq!(refused(usual), None, "{usual}");
        }
    }

    #[test]
    fn a_privileged_sandbox_of_cri_o_is_told_by_its_annotation() {
        let check = |value: &str| {
            let spec = format!("{{\"annotations\":{{\"{CRIO_PRIVILEGED}\":\"{value}\"}}}}");
            check(&serde_json::from_str(&spec).unwrap())
        };
        assert!(check("true").unwrap_err().cause.starts_with("privileged:"));
        assert!(check("false").is_ok());
    }
}
