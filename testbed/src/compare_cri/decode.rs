//! Protocol buffers to trees. A field that the schema does not have stays in the tree, under its number.

use serde_json::{Map, Value};

use super::schema::{Field, Shape, schema};

/// A value on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The name of a field that our `.proto` files do not have.
pub(crate) fn unknown(number: u64) -> String {
    format!("unknown field {number}")
}

/// The tree of a message of this name; `None` if the bytes are not one.
pub(crate) fn message(name: &str, bytes: &[u8]) -> Option<Value> {
    let fields = schema().messages.get(name).map_or(&[][..], Vec::as_slice);
    let mut tree = Map::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (number, wire) = next(&mut rest)?;
        match fields.iter().find(|field| field.number == number) {
            Some(field) => put(&mut tree, field, &wire)?,
            None => push(&mut tree, &unknown(number), raw(&wire))?,
        }
    }
    Some(Value::Object(tree))
}

fn push(tree: &mut Map<String, Value>, name: &str, value: Value) -> Option<()> {
    let list = tree.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut()?.push(value);
    Some(())
}

fn put(tree: &mut Map<String, Value>, field: &Field, wire: &Wire<'_>) -> Option<()> {
    match (field.shape, wire) {
        (Shape::One, wire) => {
            tree.insert(field.name.clone(), value(&field.of, wire)?);
        }
        (Shape::Map, Wire::Bytes(entry)) => {
            let (key, text) = pair(entry)?;
            let map = tree.entry(&field.name).or_insert_with(|| Value::Object(Map::new()));
            map.as_object_mut()?.insert(key, Value::String(text));
        }
        (Shape::Repeated, Wire::Bytes(bytes)) if is_number(&field.of) => {
            let mut rest = *bytes;
            while !rest.is_empty() {
                let number = varint(&mut rest)?;
                push(tree, &field.name, value(&field.of, &Wire::Number(number))?)?;
            }
        }
        (Shape::Repeated, wire) => {
            push(tree, &field.name, value(&field.of, wire)?)?;
        }
        (Shape::Map, Wire::Number(_)) => return None,
    }
    Some(())
}

fn is_number(kind: &str) -> bool {
    matches!(kind, "bool" | "int32" | "int64" | "uint32" | "uint64") || schema().is_enum(kind)
}

fn value(kind: &str, wire: &Wire<'_>) -> Option<Value> {
    Some(match (kind, wire) {
        ("string" | "bytes", Wire::Bytes(bytes)) => text(bytes),
        ("bool", Wire::Number(number)) => Value::Bool(*number != 0),
        ("int32" | "int64", Wire::Number(number)) => number.cast_signed().into(),
        ("uint32" | "uint64", Wire::Number(number)) => (*number).into(),
        (kind, Wire::Number(number)) if schema().is_enum(kind) => {
            schema().value(kind, *number).map_or_else(|| (*number).into(), Into::into)
        }
        (kind, Wire::Bytes(bytes)) if schema().messages.contains_key(kind) => message(kind, bytes)?,
        // The number on the wire has another type than our file says: it must not pass as equal.
        (_, wire) => raw(wire),
    })
}

fn text(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| raw(&Wire::Bytes(bytes)), Into::into)
}

fn raw(wire: &Wire<'_>) -> Value {
    match wire {
        Wire::Number(number) => format!("number {number}").into(),
        Wire::Bytes(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("bytes {hex}").into()
        }
    }
}

fn pair(entry: &[u8]) -> Option<(String, String)> {
    let (mut key, mut text) = (String::new(), String::new());
    let mut rest = entry;
    while !rest.is_empty() {
        let (number, Wire::Bytes(bytes)) = next(&mut rest)? else { return None };
        let found = String::from_utf8_lossy(bytes).into_owned();
        match number {
            1 => key = found,
            2 => text = found,
            _ => return None,
        }
    }
    Some((key, text))
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let tag = varint(rest)?;
    let wire = match tag & 7 {
        0 => Wire::Number(varint(rest)?),
        1 => Wire::Bytes(take(rest, 8)?),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            Wire::Bytes(take(rest, length)?)
        }
        5 => Wire::Bytes(take(rest, 4)?),
        _ => return None,
    };
    Some((tag >> 3, wire))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let [byte] = take(rest, 1)? else { return None };
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_read_with_the_names_of_its_fields() {
        // ExecSync of ["a", "b"] in container "c" with a timeout of 300 s.
        let bytes = [0x0a, 1, b'c', 0x12, 1, b'a', 0x12, 1, b'b', 0x18, 0xac, 2];
        let tree = message("ExecSyncRequest", &bytes).expect("a message");
        assert_eq!(tree, json!({"container_id": "c", "cmd": ["a", "b"], "timeout": 300}));
    }

    #[test]
    fn a_field_that_we_do_not_know_is_kept() {
        let tree = message("StopContainerRequest", &[0x0a, 1, b'c', 0x7a, 1, b'x', 0x78, 3]);
        let expected = json!({"container_id": "c", "unknown field 15": ["bytes 78", "number 3"]});
        assert_eq!(tree, Some(expected));
        assert_eq!(message("StopContainerRequest", &[0x0a, 9, b'c']), None);
    }

    #[test]
    fn zero_that_is_set_is_not_what_is_absent() {
        let set = message("LinuxSandboxSecurityContext", &[0x1a, 0]).expect("a message");
        assert_eq!(set, json!({"run_as_user": {}}));
    }
}
