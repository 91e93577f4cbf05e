//! Parsers of foreign text (CNI configurations and plugin output), public for fuzz targets only: they return whatever
//! the bytes are.

use serde_json::Value;

/// Parses a CNI configuration and returns the input of each of its plugins, none if it is invalid; and the one-line
/// error message that is made of the bytes as a plugin's output.
#[must_use]
pub fn cni(bytes: &[u8]) -> (Vec<Value>, String) {
    crate::cni::read_anything(bytes)
}
