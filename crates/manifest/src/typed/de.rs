//! A tree as a source for serde that knows where it is.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use types::Quantity;

use super::Unknown;
use super::fault::TypeError;
use crate::place::Path;
use crate::tree::{Key, Node, Value};

/// How the types begin that have no fields yet; they take any value.
const WITHOUT_FIELDS: &str = "WorkloadPodGroup";

type Record<'a> = &'a dyn Fn(Unknown<'_>);

/// A node with the way to it. Kubernetes takes `null` for "not set" everywhere, and so it is here:
/// a missing option, or the type's zero where there is no option.
pub(super) struct Reader<'a> {
    node: &'a Node,
    path: &'a Path<'a>,
    record: Record<'a>,
    /// The key before the node and the keys that its struct knows.
    key: Option<(&'a Key, &'static [&'static str])>,
}

impl<'a> Reader<'a> {
    pub(super) fn root(node: &'a Node, path: &'a Path<'a>, record: Record<'a>) -> Self {
        Self { node, path, record, key: None }
    }

    fn located<T>(&self, result: Result<T, TypeError>) -> Result<T, TypeError> {
        result.map_err(|error| error.located(self.node.at, self.path))
    }

    fn list<'de, V: Visitor<'de>>(&self, items: &'a [Node], visitor: V) -> Result<V::Value, TypeError> {
        self.located(visitor.visit_seq(Items { items, index: 0, path: self.path, record: self.record }))
    }

    fn map<'de, V: Visitor<'de>>(
        &self,
        entries: &'a [(Key, Node)],
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        let entries = Entries { rest: entries, value: None, known, path: self.path, record: self.record };
        self.located(visitor.visit_map(entries))
    }

    fn any<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, TypeError> {
        match &self.node.value {
            Value::Null => self.located(visitor.visit_unit()),
            Value::Bool(value) => self.located(visitor.visit_bool(*value)),
            Value::Int(value) => self.located(visitor.visit_i64(*value)),
            Value::Unsigned(value) => self.located(visitor.visit_u64(*value)),
            Value::Float(value) => self.located(visitor.visit_f64(*value)),
            Value::Text(text) => self.located(visitor.visit_str(text)),
            Value::List(items) => self.list(items, visitor),
            Value::Map(entries) => self.map(entries, &[], visitor),
        }
    }

    /// A value that may be there and may have no fields.
    fn no_fields<'de, V: Visitor<'de>>(&self, visitor: &V) -> Result<(), TypeError> {
        match &self.node.value {
            Value::Null => Ok(()),
            Value::Map(entries) => {
                for (key, _) in entries {
                    let path = self.path.field(&key.name);
                    (self.record)(Unknown { at: key.at, path: &path, name: &key.name, siblings: &[] });
                }
                Ok(())
            }
            _ => Err(self.refuse(visitor)),
        }
    }

    fn refuse<'de, V: Visitor<'de>>(&self, visitor: &V) -> TypeError {
        let found = match &self.node.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Int(value) => Unexpected::Signed(*value),
            Value::Unsigned(value) => Unexpected::Unsigned(*value),
            Value::Float(value) => Unexpected::Float(*value),
            Value::Text(text) => Unexpected::Str(text),
            Value::List(_) => Unexpected::Seq,
            Value::Map(_) => Unexpected::Map,
        };
        TypeError::invalid_type(found, visitor).located(self.node.at, self.path)
    }
}

macro_rules! numbers {
    ($($name:ident)*) => { $(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
            match self.node.value {
                Value::Null => visitor.visit_u64(0),
                Value::Int(_) | Value::Unsigned(_) | Value::Float(_) => self.any(visitor),
                _ => Err(self.refuse(&visitor)),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = TypeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        self.any(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match self.node.value {
            Value::Null => visitor.visit_bool(false),
            Value::Bool(value) => visitor.visit_bool(value),
            _ => Err(self.refuse(&visitor)),
        }
    }

    numbers! { deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
    deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match &self.node.value {
            Value::Null => self.located(visitor.visit_str("")),
            Value::Text(text) if is_wrapped_base64(&visitor, text) => {
                let unwrapped: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
                self.located(visitor.visit_str(&unwrapped))
            }
            Value::Text(text) => self.located(visitor.visit_str(text)),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        if self.node.value == Value::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        let (at, path) = (self.node.at, self.path);
        // The type takes any text for an amount.
        if let ("Quantity", Value::Text(text)) = (name, &self.node.value) {
            text.parse::<Quantity>().map_err(|error| TypeError::custom(error).located(at, path))?;
        }
        if name.starts_with(WITHOUT_FIELDS) {
            self.no_fields(&visitor)?;
        }
        visitor.visit_newtype_struct(self).map_err(|error: TypeError| error.located(at, path))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match &self.node.value {
            Value::Null => self.list(&[], visitor),
            Value::List(items) => self.list(items, visitor),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match &self.node.value {
            Value::Null => self.map(&[], &[], visitor),
            Value::Map(entries) => self.map(entries, &[], visitor),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        match &self.node.value {
            Value::Null => self.map(&[], fields, visitor),
            Value::Map(entries) => self.map(entries, fields, visitor),
            _ => Err(self.refuse(&visitor)),
        }
    }

    /// Serde's types ignore only what they do not know.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        if let Some((key, siblings)) = self.key {
            (self.record)(Unknown { at: key.at, path: self.path, name: &key.name, siblings });
        }
        visitor.visit_unit()
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        match &self.node.value {
            Value::Text(text) => self.located(visitor.visit_enum(Variant(text))),
            _ => Err(self.refuse(&visitor)),
        }
    }

    forward_to_deserialize_any! { i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier }
}

/// Kubernetes reads over the line breaks in base64, the type does not.
fn is_wrapped_base64<'de, V: Visitor<'de>>(visitor: &V, text: &str) -> bool {
    let expected: &dyn serde::de::Expected = visitor;
    text.contains(['\n', '\r']) && expected.to_string().contains("base64")
}

struct Items<'a> {
    items: &'a [Node],
    index: usize,
    path: &'a Path<'a>,
    record: Record<'a>,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = TypeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, TypeError> {
        let Some(node) = self.items.get(self.index) else { return Ok(None) };
        let path = self.path.index(self.index);
        self.index += 1;
        seed.deserialize(Reader { node, path: &path, record: self.record, key: None }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len().saturating_sub(self.index))
    }
}

struct Entries<'a> {
    rest: &'a [(Key, Node)],
    value: Option<(&'a Key, &'a Node)>,
    known: &'static [&'static str],
    path: &'a Path<'a>,
    record: Record<'a>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = TypeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TypeError> {
        let Some(((key, node), rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        self.value = Some((key, node));
        seed.deserialize(StrDeserializer::new(&key.name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, TypeError> {
        let Some((key, node)) = self.value.take() else {
            return Err(TypeError::custom("a value without its key"));
        };
        let path = self.path.field(&key.name);
        let reader = Reader { node, path: &path, record: self.record, key: Some((key, self.known)) };
        seed.deserialize(reader).map_err(|error| error.located(node.at, &path))
    }
}

struct Variant<'a>(&'a str);

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = TypeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), TypeError> {
        Ok((seed.deserialize(StrDeserializer::<TypeError>::new(self.0))?, self))
    }
}

impl<'de> serde::de::VariantAccess<'de> for Variant<'_> {
    type Error = TypeError;

    fn unit_variant(self) -> Result<(), TypeError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _seed: T) -> Result<T::Value, TypeError> {
        Err(TypeError::custom("expected a plain word"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, _visitor: V) -> Result<V::Value, TypeError> {
        Err(TypeError::custom("expected a plain word"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, TypeError> {
        Err(TypeError::custom("expected a plain word"))
    }
}
