//! An object as the API server sends it: JSON, with its metadata as a type.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// An object of any kind. Whatever its fields hold, it can be deserialised: a field that we do not know or that has
/// another type than we expect must not end a watch, and kube logs the text of a response that it cannot deserialise,
/// which may be a Secret's. For the same reason `Debug` prints its name only. `managedFields` are dropped.
#[derive(Clone)]
pub struct RawObject {
    meta: ObjectMeta,
    fields: Map<String, Value>,
}

impl RawObject {
    /// All its fields.
    #[must_use]
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The value of a top-level field; `Null` if there is none.
    #[must_use]
    pub fn field(&self, name: &str) -> &Value {
        self.fields.get(name).unwrap_or(&Value::Null)
    }

    /// Its name; empty if it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    /// Its namespace; empty if it has none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.meta.namespace.as_deref().unwrap_or_default()
    }

    /// Its UID; empty if it has none.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    /// Its annotations.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.meta.annotations.clone().unwrap_or_default()
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.meta.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// The object with this value of an annotation.
    #[must_use]
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        let metadata = self.fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(metadata) = metadata {
            let annotations = metadata.entry("annotations").or_insert(Value::Null);
            if annotations.is_null() {
                *annotations = Value::Object(Map::new());
            }
            // Annotations of another type are an error to the reader of the pod.
            if let Value::Object(annotations) = annotations {
                annotations.insert(key.to_owned(), Value::from(value));
            }
        }
        self.meta.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }
}

impl fmt::Debug for RawObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RawObject");
        shown.field("namespace", &self.namespace()).field("name", &self.name()).finish_non_exhaustive()
    }
}

impl From<Map<String, Value>> for RawObject {
    fn from(mut fields: Map<String, Value>) -> Self {
        let mut meta = ObjectMeta::default();
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.remove("managedFields");
            meta =
                serde_json::from_value(Value::Object(metadata.clone())).unwrap_or_else(|_| known(metadata));
        }
        Self { meta, fields }
    }
}

/// The fields without which an object cannot be distinguished from others.
fn known(metadata: &Map<String, Value>) -> ObjectMeta {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    ObjectMeta {
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..ObjectMeta::default()
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}

impl Resource for RawObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// A kind of the core group.
#[must_use]
pub fn core(kind: &str, plural: &str) -> ApiResource {
    resource("", kind, plural)
}

/// A kind of `certificates.k8s.io/v1`.
#[must_use]
pub fn certificates_v1(kind: &str, plural: &str) -> ApiResource {
    resource("certificates.k8s.io", kind, plural)
}

fn resource(group: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        api_version: if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") },
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Why a request failed, in one line.
#[must_use]
pub fn cause(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        kube::Error::Service(cause) => chain(cause.as_ref()),
        other => chain(other),
    }
}

/// The HTTP status of an answer that is an error; `None` if there was no answer.
#[must_use]
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// An error with its causes.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

/// Whether a name or namespace can be a part of a path: names of refused pods are not checked elsewhere.
#[must_use]
pub fn is_path_segment(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
        && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> RawObject {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_field_of_another_type_does_not_lose_the_object() {
        let object = read(
            r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":3,"managedFields":[{}]}}"#,
        );
        assert_eq!((object.name(), object.namespace(), object.uid()), ("a", "n", "u"));
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        assert!(object.field("metadata").get("managedFields").is_none());
    }

    #[test]
    fn the_content_is_not_printed() {
        let object = read(r#"{"metadata":{"name":"a"},"data":{"password":"aHVudGVyMg=="}}"#);
        let shown = format!("{object:?}");
        assert!(shown.contains("\"a\"") && !shown.contains("aHVudGVyMg"), "{shown}");
    }
}
