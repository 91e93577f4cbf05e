//! Network capabilities. The caller creates the pod's network namespace, and the host's user namespace owns it, so that
//! these capabilities have no effect there for a pod with a user namespace.

use serde_json::Value;

use super::rules::Subject;
use super::{ACCEPT_NETWORK, Refusal, annotations};
use crate::error::Result;
use crate::isolation::RuntimeKind;

/// Capabilities that containerd gives by default. A container that has all of them has CAP_NET_RAW by default as well,
/// and did not ask for it.
const UNASKED: [&str; 4] = ["CAP_AUDIT_WRITE", "CAP_MKNOD", "CAP_SYS_CHROOT", "CAP_SETFCAP"];

pub(super) fn check(subject: &Subject<'_>) -> Result<()> {
    // gVisor has a network stack of its own, in which they have effect.
    if subject.runtime == RuntimeKind::Runsc {
        return Ok(());
    }
    let Some(name) = asked_for(subject.spec) else { return Ok(()) };
    if annotations::accepts_unreal_network(subject.annotations)? {
        return Ok(());
    }
    let cause = format!("{name} does nothing in a network namespace of the host's users");
    let hint = format!("drop it, or set the annotation {ACCEPT_NETWORK} to \"ignored\"");
    Err(Refusal::hinted("process.capabilities", cause, hint).into())
}

fn asked_for(spec: &Value) -> Option<&'static str> {
    let has = |name: &str| {
        let sets = spec.pointer("/process/capabilities").and_then(Value::as_object);
        let mut all = sets.into_iter().flat_map(|sets| sets.values()).filter_map(Value::as_array).flatten();
        all.any(|capability| capability.as_str() == Some(name))
    };
    if has("CAP_NET_ADMIN") {
        return Some("CAP_NET_ADMIN");
    }
    (has("CAP_NET_RAW") && !UNASKED.iter().all(|name| has(name))).then_some("CAP_NET_RAW")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn refused(set: &str, annotation: Option<&str>, runtime: RuntimeKind) -> Option<String> {
        let spec = format!("{{\"process\":{{\"capabilities\":{{\"bounding\":{set}}}}}}}");
        let spec = serde_json::from_str(&spec).unwrap();
        let annotations: BTreeMap<_, _> =
            annotation.map(|value| (ACCEPT_NETWORK.to_owned(), value.to_owned())).into_iter().collect();
        let subject = Subject { spec: &spec, annotations: &annotations, ids: 65_536, runtime };
        check(&subject).err().map(|e| e.to_string())
    }

    #[test]
    fn net_admin_and_net_raw_are_refused_where_they_are_asked_for() {
        let runc = RuntimeKind::Runc;
        assert!(refused(r#"["CAP_NET_ADMIN"]"#, None, runc).unwrap().contains("CAP_NET_ADMIN"));
        assert!(refused(r#"["CAP_NET_RAW"]"#, None, runc).unwrap().contains("CAP_NET_RAW"));
        let default = r#"["CAP_AUDIT_WRITE","CAP_MKNOD","CAP_NET_RAW","CAP_SYS_CHROOT","CAP_SETFCAP"]"#;
        assert_eq!(refused(default, None, runc), None);
        assert_eq!(refused(r#"["CAP_NET_ADMIN"]"#, Some("ignored"), runc), None);
        assert!(refused(r#"["CAP_NET_ADMIN"]"#, Some("true"), runc).unwrap().contains("is not \"ignored\""));
        assert_eq!(refused(r#"["CAP_NET_ADMIN"]"#, None, RuntimeKind::Runsc), None);
        assert_eq!(refused("[]", None, runc), None);
    }
}
