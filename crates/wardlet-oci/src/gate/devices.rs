//! Devices. In a user namespace none can be made: the host's own files are shown, with the host's owners, so
//! that only what everybody may open can be opened.

use std::os::unix::fs::MetadataExt as _;

use serde_json::Value;

use super::Refusal;
use super::rules::{list, text};

const EVERYBODY: u32 = 0o006;

pub(super) fn check(spec: &Value) -> Result<(), Refusal> {
    if list(spec, "/linux/resources/devices").any(allows_all) {
        let cause = "privileged: the pod asks for a user namespace and for every device of the host";
        let hint = "take one of the two away; name the capabilities that it needs instead of privileged";
        return Err(Refusal::new("linux.resources.devices", cause, hint));
    }
    for device in list(spec, "/linux/devices") {
        let path = text(device, "path");
        let open = std::fs::metadata(path).is_ok_and(|found| found.mode() & EVERYBODY == EVERYBODY);
        if !open {
            let cause = format!("{path} is the host's, and not for everybody to read and write");
            let hint = format!("make {path} 0666 on the host, or take the annotation away");
            return Err(Refusal::new("linux.devices", cause, hint));
        }
    }
    Ok(())
}

/// A rule without numbers, for all devices of any type.
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
    fn a_device_that_everybody_may_open_is_kept() {
        assert_eq!(refused(r#"{"devices":[{"path":"/dev/null","type":"c"}]}"#), None);
        let refused = refused(r#"{"devices":[{"path":"/no/such/device","type":"c"}]}"#).unwrap();
        assert!(refused.starts_with("/no/such/device is the host's"), "{refused}");
    }
}
