//! The fields that the API's types have, asked of the types themselves.
//!
//! A `Deserialize` impl names its fields to the deserializer that drives it. This deserializer visits every field of
//! every struct once and records the names; it cannot miss a field that reading would take.

use std::cell::RefCell;
use std::fmt;

use k8s_openapi::Resource;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Expected, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

/// One field of a type, however deep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The way to it; `[]` is any item of a list, `*` any key of a map: `spec.containers[].image`.
    pub path: String,
    /// The type of the field as its reader names it: `a string`, `PodSpec`, `i32`.
    pub kind: String,
}

/// All fields of a type, in the order of the type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    fields: Vec<Field>,
}

impl Schema {
    /// The schema of a type of the API; nothing when the type refuses even good values.
    #[must_use]
    pub fn of<T: DeserializeOwned + Resource>() -> Option<Self> {
        let seen = RefCell::new(Vec::new());
        T::deserialize(Tracer { path: String::new(), seen: &seen, text: sample::<T>("") }).ok()?;
        let fields = seen.take().into_iter().filter(|f: &Field| !f.path.is_empty()).collect();
        Some(Self { fields })
    }

    /// The fields.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }
}

/// A text that every type takes which reads one: also a time is read from it.
const ANY_TEXT: &str = "1970-01-01T00:00:00Z";

fn sample<T: Resource>(field: &'static str) -> Sample {
    Sample { field, api_version: T::API_VERSION, kind: T::KIND }
}

/// What to say when text is asked for: an object's own version and kind are checked.
#[derive(Debug, Clone, Copy)]
struct Sample {
    field: &'static str,
    api_version: &'static str,
    kind: &'static str,
}

impl Sample {
    fn text(&self) -> &'static str {
        match self.field {
            "apiVersion" => self.api_version,
            "kind" => self.kind,
            // Bytes come as base64.
            "bytes" => "",
            _ => ANY_TEXT,
        }
    }
}

#[derive(Clone)]
struct Tracer<'a> {
    path: String,
    seen: &'a RefCell<Vec<Field>>,
    text: Sample,
}

impl Tracer<'_> {
    fn note(&self, kind: impl fmt::Display) {
        let mut seen = self.seen.borrow_mut();
        if seen.last().is_none_or(|last| last.path != self.path) {
            seen.push(Field { path: self.path.clone(), kind: kind.to_string() });
        }
    }

    fn below(&self, step: &str) -> Self {
        let dot = if self.path.is_empty() || step == "[]" { "" } else { "." };
        Self { path: format!("{}{dot}{step}", self.path), ..self.clone() }
    }
}

#[derive(Debug)]
struct NoValue;

impl std::error::Error for NoValue {}

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no value")
    }
}

impl serde::de::Error for NoValue {
    fn custom<T: fmt::Display>(_words: T) -> Self {
        Self
    }
}

fn words<'de, V: Visitor<'de>>(visitor: &V) -> String {
    let expected: &dyn Expected = visitor;
    expected.to_string()
}

macro_rules! leaves {
    ($($name:ident $visit:ident($value:expr))*) => { $(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
            self.note(words(&visitor));
            visitor.$visit($value)
        }
    )* };
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = NoValue;

    leaves! {
        deserialize_bool visit_bool(false)
        deserialize_i8 visit_i8(1) deserialize_i16 visit_i16(1) deserialize_i32 visit_i32(1) deserialize_i64 visit_i64(1)
        deserialize_u8 visit_u8(1) deserialize_u16 visit_u16(1) deserialize_u32 visit_u32(1) deserialize_u64 visit_u64(1)
        deserialize_f32 visit_f32(1.0) deserialize_f64 visit_f64(1.0)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        self.note(words(&visitor));
        visitor.visit_string(ANY_TEXT.to_owned())
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        self.note(words(&visitor));
        visitor.visit_str(self.text.text())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        self.deserialize_str(visitor)
    }

    /// A field that may be missing. Bytes are one, too, and name themselves here.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        let field = if words(&visitor).contains("base64") { "bytes" } else { "" };
        let text = Sample { field, ..self.text };
        visitor.visit_some(Self { text, ..self })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        self.note(name);
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        self.note("a list");
        visitor.visit_seq(Once(Some(self.below("[]"))))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        self.note("a map");
        visitor.visit_map(Walk { tracer: self, names: &["*"], next: 0, is_object: false })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        self.note(name);
        let is_object = ["apiVersion", "kind", "metadata"].iter().all(|field| fields.contains(field));
        // An object inside of another is a claim in its template.
        let text = match is_object && !self.path.is_empty() {
            true => Sample { field: "", api_version: "v1", kind: name },
            false => self.text,
        };
        visitor.visit_map(Walk { tracer: Self { text, ..self }, names: fields, next: 0, is_object })
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier ignored_any
    }
}

struct Once<'a>(Option<Tracer<'a>>);

impl<'de> SeqAccess<'de> for Once<'_> {
    type Error = NoValue;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, NoValue> {
        self.0.take().map(|tracer| seed.deserialize(tracer)).transpose()
    }
}

struct Walk<'a> {
    tracer: Tracer<'a>,
    names: &'static [&'static str],
    next: usize,
    /// Whether it has a version and a kind of its own, which are checked.
    is_object: bool,
}

impl<'de> MapAccess<'de> for Walk<'_> {
    type Error = NoValue;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, NoValue> {
        self.names.get(self.next).map(|name| seed.deserialize(StrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, NoValue> {
        let name = self.names.get(self.next).copied().unwrap_or_default();
        self.next += 1;
        let mut tracer = self.tracer.below(name);
        tracer.text.field = if self.is_object { name } else { "" };
        seed.deserialize(tracer)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{apps::v1::Deployment, apps::v1::StatefulSet, core::v1::Pod, core::v1::Secret};

    use super::*;

    #[test]
    fn a_types_fields_are_found_however_deep() {
        let schema = Schema::of::<Pod>().unwrap();
        let kind = |path: &str| {
            schema.fields().iter().find(|f| f.path == path).map(|f| f.kind.clone()).unwrap_or_default()
        };
        assert_eq!(kind("spec.hostUsers"), "a boolean");
        assert_eq!(kind("spec.containers[].securityContext.seLinuxOptions.level"), "a string");
        assert_eq!(kind("spec.containers[].resources.limits.*"), "Quantity");
        assert_eq!(kind("spec.volumes[].projected.sources[].secret.items[].mode"), "i32");
        assert_eq!(kind("metadata.creationTimestamp"), "Time");
        assert!(schema.fields().len() > 1000, "{}", schema.fields().len());
        assert!(Schema::of::<Secret>().is_some());
        assert!(Schema::of::<Deployment>().is_some());
        let set = Schema::of::<StatefulSet>().unwrap();
        let path = "spec.volumeClaimTemplates[].spec.resources.requests.*";
        assert!(set.fields().iter().any(|f| f.path == path), "the claims of a StatefulSet are objects");
    }
}
