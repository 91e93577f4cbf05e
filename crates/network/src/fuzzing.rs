//! Readers of what others write about networks, for fuzz targets: they return whatever the bytes are.

use serde_json::Value;

/// A CNI configuration: what each of its plugins would be given to read, none if it is none. And the one line that is
/// made of the bytes as a plugin's complaint.
#[must_use]
pub fn cni(bytes: &[u8]) -> (Vec<Value>, String) {
    crate::cni::read_anything(bytes)
}
