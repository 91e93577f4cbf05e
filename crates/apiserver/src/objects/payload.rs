//! The content of ConfigMaps and Secrets from their JSON.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use volumes::payload::{ConfigMap, Secret};

use crate::objects::references::{ObjectKey, ObjectKind};
use crate::raw::RawObject;

/// The content of an object. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Payload {
    ConfigMap(ConfigMap),
    Secret(Secret),
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConfigMap(_) => "ConfigMap(..)",
            Self::Secret(_) => "Secret(..)",
        })
    }
}

/// The content of an object.
///
/// # Errors
/// The field that is not valid; its value is not in the message.
pub(super) fn payload(key: &ObjectKey, raw: &RawObject) -> Result<Payload, String> {
    Ok(match key.kind {
        ObjectKind::ConfigMap => {
            Payload::ConfigMap(ConfigMap { data: texts(raw)?, binary_data: bytes(raw, "binaryData")? })
        }
        ObjectKind::Secret => {
            Payload::Secret(Secret { uid: raw.uid().to_owned(), data: bytes(raw, "data")? })
        }
    })
}

/// Whether the object can no longer change.
pub(super) fn is_immutable(raw: &RawObject) -> bool {
    raw.field("immutable").as_bool() == Some(true)
}

fn texts(raw: &RawObject) -> Result<BTreeMap<String, String>, String> {
    let entries = raw.field("data").as_object().into_iter().flatten();
    let text = |(key, value): (&String, &Value)| match value.as_str() {
        Some(text) => Ok((key.clone(), text.to_owned())),
        None => Err(format!("data[{key:?}] is not a string")),
    };
    entries.map(text).collect()
}

fn bytes(raw: &RawObject, field: &str) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let entries = raw.field(field).as_object().into_iter().flatten();
    let decoded = |(key, value): (&String, &Value)| match value.as_str().map(|text| STANDARD.decode(text)) {
        Some(Ok(bytes)) => Ok((key.clone(), bytes)),
        _ => Err(format!("{field}[{key:?}] is not base64")),
    };
    entries.map(decoded).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(kind: ObjectKind, object: Value) -> Result<Payload, String> {
        let key = ObjectKey { kind, namespace: "n".into(), name: "x".into() };
        payload(&key, &serde_json::from_value(object).unwrap())
    }

    #[test]
    fn contents_are_decoded_and_never_printed() {
        let map =
            read(ObjectKind::ConfigMap, json!({"data": {"a": "b"}, "binaryData": {"c": "AAE="}})).unwrap();
        let Payload::ConfigMap(map) = map else { panic!("{map:?}") };
        assert_eq!((map.data["a"].as_str(), &map.binary_data["c"][..]), ("b", &[0, 1][..]));
        let object = json!({"metadata": {"uid": "u-1"}, "data": {"password": "aHVudGVyMg=="}});
        let secret = read(ObjectKind::Secret, object).unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(
            secret,
            Payload::Secret(Secret {
                uid: "u-1".into(),
                data: [("password".into(), b"hunter2".to_vec())].into()
            })
        );
        let error = read(ObjectKind::Secret, json!({"data": {"password": "hunter2!"}})).unwrap_err();
        assert_eq!(error, "data[\"password\"] is not base64");
    }
}
