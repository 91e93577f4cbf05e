//! JSON as registries and builders write it: duplicates and nulls included, other deviations refused.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::error::{Error, Result};

/// The longest manifest, index or configuration: the limit of registries.
pub(crate) const LONGEST: u64 = 4 << 20;

pub(crate) fn read<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    let understood = serde_json::from_slice(bytes);
    understood.map_err(|error| Error::Document { what: what.to_owned(), why: error.to_string() })
}

/// Go writes empty lists and maps as null.
pub(crate) fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
