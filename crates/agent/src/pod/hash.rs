//! A hash of definitions.

use std::hash::Hasher as _;

use fnv::FnvHasher;

/// FNV-1a of 64 bits: the same definition gives the same number in every process.
pub(crate) fn hash(value: &impl serde::Serialize) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(serde_json::to_string(value).unwrap_or_default().as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use manifest::k8s_openapi::api::core::v1::Container;

    use super::*;

    #[test]
    fn another_definition_has_another_hash() {
        let container = |image: &str| Container { image: Some(image.into()), ..Container::default() };
        assert_eq!(hash(&container("a:1")), hash(&container("a:1")));
        assert_ne!(hash(&container("a:1")), hash(&container("a:2")));
        assert_eq!(hash(&"a"), 0xd427_2417_d7c7_7eea, "records of earlier versions hold this number");
    }
}
