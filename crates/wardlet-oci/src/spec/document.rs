//! Parses a whole configuration for editing: it is not changed by reading and writing, and has one meaning for all
//! parsers.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::fold::folded;

/// A whole configuration.
pub type Document = Value;

/// Objects with free keys, in which keys that differ in case are different.
const FREE: [&str; 5] = ["annotations", "sysctl", "unified", "rdma", "netDevices"];

/// Keys that wardlet reads. The runtimes' parsers ignore case, so that a key in another case would apply there only.
const READ: [&str; 44] = [
    "access",
    "additionalGids",
    "allow",
    "ambient",
    "annotations",
    "bounding",
    "capabilities",
    "cgroupsPath",
    "destination",
    "devices",
    "effective",
    "fileMode",
    "gid",
    "gidMappings",
    "hooks",
    "hostname",
    "inheritable",
    "linux",
    "major",
    "maskedPaths",
    "minor",
    "mounts",
    "namespaces",
    "netDevices",
    "noNewPrivileges",
    "options",
    "path",
    "permitted",
    "process",
    "readonly",
    "readonlyPaths",
    "resources",
    "root",
    "rootfsPropagation",
    "seccomp",
    "source",
    "sysctl",
    "terminal",
    "timeOffsets",
    "type",
    "uid",
    "uidMappings",
    "unified",
    "user",
];

/// Parses a whole configuration. It is an error if a key exists twice in any case, if a key that wardlet reads has
/// another case, and if a number is not an integer: OCI has none, and it could change when it is written again.
pub fn parse(text: &[u8]) -> Result<Document, String> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let whole = Strict { free: false }.deserialize(&mut parser).map_err(|e| e.to_string())?;
    parser.end().map_err(|e| e.to_string())?;
    if whole.is_object() { Ok(whole) } else { Err("it is no OCI configuration".to_owned()) }
}

#[derive(Clone, Copy)]
struct Strict {
    free: bool,
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Err(E::custom(format!("{value} is a number that OCI does not have")))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Strict { free: false })? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let mut seen: HashMap<String, String> = HashMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let form = if self.free { key.clone() } else { folded(&key) };
            if let Some(name) = misspelt(&key, &form).filter(|_| !self.free) {
                return Err(A::Error::custom(format!("key {key:?} is {name:?} in other letters")));
            }
            if let Some(other) = seen.insert(form, key.clone()) {
                return Err(A::Error::custom(format!("keys {other:?} and {key:?} are one to a runtime")));
            }
            let value = map.next_value_seed(Strict { free: FREE.contains(&key.as_str()) })?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

fn misspelt(key: &str, form: &str) -> Option<&'static str> {
    READ.into_iter().find(|name| *name != key && name.to_ascii_lowercase() == form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_on_the_way_through() {
        let text = r#"{"annotations":{"A":"1","a":"2"},"x":{"y":[1,-5,18446744073709551615,null,true,"\u0000\ud83d\ude00"]}}"#;
        let whole = parse(text.as_bytes()).unwrap();
        let plain: Value = serde_json::from_str(text).unwrap();
        assert_eq!(whole, plain);
        assert_eq!(parse(whole.to_string().as_bytes()).unwrap(), plain);
    }

    #[test]
    fn what_is_ambiguous_or_would_change_is_refused() {
        for (text, cause) in [
            (r#"{"process":{},"process":{}}"#, "are one to a runtime"),
            (r#"{"hooks":{},"HOOKS":{}}"#, "in other letters"),
            (r#"{"x":{"a":1,"A":2}}"#, "are one to a runtime"),
            (r#"{"Process":{}}"#, "in other letters"),
            (r#"{"linux":{"\u017fysctl":{}}}"#, "in other letters"),
            (r#"{"x":18446744073709551616}"#, "OCI does not have"),
            (r#"{"x":1.5}"#, "OCI does not have"),
            ("[]", "no OCI configuration"),
            (r#"{"a":1"#, "EOF"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(cause), "{text}: {error}");
        }
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(parse(deep.as_bytes()).unwrap_err().contains("recursion"));
    }
}
