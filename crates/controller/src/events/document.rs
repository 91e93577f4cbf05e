use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use types::time::stamp;

use super::notice::{Notice, Text};

/// The component that events name.
const COMPONENT: &str = "wardlet-controller";
/// The longest name of an object.
const NAME_BYTES: usize = 253;
/// The longest message.
const MESSAGE_BYTES: usize = 1024;
/// Of the digest, so many bytes are in the name.
const DIGEST_BYTES: usize = 8;

/// The name of an event: it follows from the pod's UID, the volume and the reason.
pub(super) fn name(notice: &Notice) -> String {
    let parts = json!([notice.uid, notice.volume.as_str(), notice.subject.reason()]).to_string();
    let digest = digest(&SHA256, parts.as_bytes());
    let hex: String = digest.as_ref().iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let kept = cut(notice.pod.name(), NAME_BYTES - 2 * DIGEST_BYTES - 1).trim_end_matches(['.', '-']);
    format!("{kept}.{hex}")
}

/// An event in the API, of this replica and this time in seconds since 1970.
pub(super) fn document(notice: &Notice, text: &Text, replica: &str, now: u64) -> Value {
    let (namespace, pod) = (notice.pod.namespace(), notice.pod.name());
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name(notice), "namespace": namespace},
        "involvedObject":
            {"kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": pod, "uid": notice.uid},
        "reason": text.reason,
        "message": cut(&text.message, MESSAGE_BYTES),
        "type": text.kind,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": replica,
        "firstTimestamp": stamp(now),
        "lastTimestamp": stamp(now),
        "count": 1,
    })
}

/// At most so many bytes of a text, whole characters.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use conflicts::{PodKey, Property, VolumeId};

    use super::super::notice::Subject;
    use super::*;

    fn notice(pod: &str, uid: &str, subject: Subject) -> Notice {
        let volume = VolumeId::csi("csi.example.com", "h");
        Notice { pod: PodKey::new("shop", pod), uid: uid.to_owned(), volume, subject }
    }

    const LABEL: Subject = Subject::Conflict(Property::SELinuxLabel);

    #[test]
    fn one_name_for_one_pod_volume_and_reason_and_another_for_any_other() {
        let first = name(&notice("web", "u1", LABEL));
        assert_eq!(first, name(&notice("web", "u1", LABEL)));
        assert_eq!(first.strip_prefix("web.").map(str::len), Some(16));
        let mut other_volume = notice("web", "u1", LABEL);
        other_volume.volume = VolumeId::csi("csi.example.com", "other");
        let policy = Subject::Conflict(Property::SELinuxChangePolicy);
        for other in [
            notice("web", "u2", LABEL),
            notice("web", "u1", policy),
            notice("web", "u1", Subject::MultipleLabels),
            other_volume,
        ] {
            assert_ne!(name(&other), first);
        }
        let long = name(&notice(&"p".repeat(253), "u1", LABEL));
        assert_eq!(long.len(), 253);
    }

    #[test]
    fn an_event_is_in_the_namespace_of_its_pod_and_names_nothing_else() {
        let notice = notice("web", "u1", LABEL);
        let text = Text { reason: "SELinuxLabelConflict", kind: "Normal", message: "text".to_owned() };
        let document = document(&notice, &text, "replica-1", 1_772_368_205);
        let expected = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name(&notice), "namespace": "shop"},
            "involvedObject":
                {"kind": "Pod", "apiVersion": "v1", "namespace": "shop", "name": "web", "uid": "u1"},
            "reason": "SELinuxLabelConflict", "message": "text", "type": "Normal",
            "source": {"component": "wardlet-controller"},
            "reportingComponent": "wardlet-controller", "reportingInstance": "replica-1",
            "firstTimestamp": "2026-03-01T12:30:05Z", "lastTimestamp": "2026-03-01T12:30:05Z", "count": 1
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!((cut("abc", 2), cut("aä", 2), cut("a", 9), cut("", 0)), ("ab", "a", "a", ""));
    }
}
