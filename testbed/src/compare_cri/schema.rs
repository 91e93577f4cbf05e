//! CRI's messages, read from our own `.proto` files: names and types of fields by their numbers.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The files that describe requests.
const FILES: [&str; 14] = [
    include_str!("../../../crates/cri/proto/container.proto"),
    include_str!("../../../crates/cri/proto/container_calls.proto"),
    include_str!("../../../crates/cri/proto/image.proto"),
    include_str!("../../../crates/cri/proto/image_spec.proto"),
    include_str!("../../../crates/cri/proto/metrics.proto"),
    include_str!("../../../crates/cri/proto/resources.proto"),
    include_str!("../../../crates/cri/proto/sandbox.proto"),
    include_str!("../../../crates/cri/proto/security.proto"),
    include_str!("../../../crates/cri/proto/services.proto"),
    include_str!("../../../crates/cri/proto/signal.proto"),
    include_str!("../../../crates/cri/proto/stats.proto"),
    include_str!("../../../crates/cri/proto/status.proto"),
    include_str!("../../../crates/cri/proto/streaming.proto"),
    include_str!("../../../crates/cri/proto/values.proto"),
];

/// How often a field occurs in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    Repeated,
    /// A map from strings to strings, the only kind that CRI has.
    Map,
}

/// A field of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// A scalar type, or the name of a message or an enum.
    pub(crate) of: String,
}

/// All messages, enums and methods.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    pub(crate) messages: BTreeMap<String, Vec<Field>>,
    enums: BTreeMap<String, BTreeMap<u64, String>>,
    /// The request's message by the method's name.
    requests: BTreeMap<String, String>,
}

/// The schema of this repository's CRI.
pub(crate) fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        let mut schema = Schema::default();
        FILES.iter().for_each(|text| schema.read(text));
        schema
    });
    &SCHEMA
}

impl Schema {
    /// The request's message of a method.
    pub(crate) fn request(&self, method: &str) -> Option<&str> {
        self.requests.get(method).map(String::as_str)
    }

    /// The name of an enum's value.
    pub(crate) fn value<'a>(&'a self, kind: &str, number: u64) -> Option<&'a str> {
        self.enums.get(kind)?.get(&number).map(String::as_str)
    }

    pub(crate) fn is_enum(&self, kind: &str) -> bool {
        self.enums.contains_key(kind)
    }

    /// Reads a file. Each line is one statement, which `rustfmt`'s like for protocol buffers sees to.
    fn read(&mut self, text: &str) {
        // The message or enum that is open, the outer one first.
        let mut open: Vec<(bool, String)> = Vec::new();
        for line in text.lines() {
            let line = line.split("//").next().unwrap_or_default().trim();
            let words: Vec<&str> = line.split([' ', ';', '(', ')']).filter(|word| !word.is_empty()).collect();
            match words.as_slice() {
                [kind @ ("message" | "enum" | "service"), name, rest @ ..] => {
                    if *kind == "message" {
                        self.messages.entry((*name).to_owned()).or_default();
                    }
                    if !rest.contains(&"{}") {
                        open.push((*kind == "enum", (*name).to_owned()));
                    }
                }
                ["rpc", method, request, ..] => {
                    self.requests.insert((*method).to_owned(), (*request).to_owned());
                }
                ["}"] => drop(open.pop()),
                [name, "=", number] => {
                    if let (Some((true, of)), Ok(number)) = (open.last(), number.parse()) {
                        self.enums.entry(of.clone()).or_default().insert(number, (*name).to_owned());
                    }
                }
                words => {
                    if let (Some((false, of)), Some(field)) = (open.last(), field(words)) {
                        self.messages.entry(of.clone()).or_default().push(field);
                    }
                }
            }
        }
    }
}

fn field(words: &[&str]) -> Option<Field> {
    let (shape, of, name, number) = match words {
        ["map<string,", _, name, "=", number] => (Shape::Map, "string", name, number),
        ["repeated", of, name, "=", number] => (Shape::Repeated, *of, name, number),
        [of, name, "=", number] => (Shape::One, *of, name, number),
        _ => return None,
    };
    Some(Field { number: number.parse().ok()?, name: (*name).to_owned(), shape, of: of.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_request_has_a_known_type() {
        let schema = schema();
        assert_eq!(schema.request("RunPodSandbox"), Some("RunPodSandboxRequest"));
        assert_eq!(schema.value("NamespaceMode", 2), Some("NODE"));
        let config = &schema.messages["PodSandboxConfig"];
        assert_eq!(config.len(), 8);
        assert_eq!(config[6].name, "annotations");
        assert_eq!(config[6].shape, Shape::Map);
        for fields in schema.messages.values() {
            for field in fields {
                let scalar = ["string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double"];
                let known = scalar.contains(&field.of.as_str())
                    || schema.is_enum(&field.of)
                    || schema.messages.contains_key(&field.of);
                assert!(known, "{field:?}");
            }
        }
    }
}
