//! Access to parts of a configuration that may be missing, but must have the right type.

use serde_json::{Map, Value};

use super::{Error, Result};

type Object = Map<String, Value>;

/// The object with this name in `whole`, created if it is missing or null.
pub(super) fn object<'a>(whole: &'a mut Object, name: &str) -> Result<&'a mut Object> {
    let value = whole.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Object::new());
    }
    value.as_object_mut().ok_or_else(|| wrong(name, "it is not an object"))
}

/// The list with this name in `whole`, created if it is missing or null.
pub(super) fn list<'a>(whole: &'a mut Object, name: &str) -> Result<&'a mut Vec<Value>> {
    let value = whole.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().ok_or_else(|| wrong(name, "it is not a list"))
}

/// The whole configuration.
pub(super) fn top(spec: &mut Value) -> Result<&mut Object> {
    spec.as_object_mut().ok_or_else(|| wrong("", "it is not an object"))
}

/// A string that must exist.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value.get(name).and_then(Value::as_str).ok_or_else(|| wrong(name, "it is missing or not a string"))
}

/// A number that may be missing, or null.
pub(super) fn number(value: &Value, name: &str) -> Result<Option<u32>> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(found) => found
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| wrong(name, "it is not an unsigned 32-bit number")),
    }
}

/// The strings of a list that may be missing, or null.
pub(super) fn texts(value: &Value, name: &str) -> Result<Vec<String>> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list
            .iter()
            .map(|text| text.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| wrong(name, "it has an entry that is not a string")),
        Some(_) => Err(wrong(name, "it is not a list")),
    }
}

pub(super) fn wrong(field: &str, why: &'static str) -> Error {
    Error::Spec { field: field.to_owned(), why }
}
