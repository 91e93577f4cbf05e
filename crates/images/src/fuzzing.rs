//! Parsers of registry responses, public for fuzz targets only: they return whatever the text is.

use crate::pull::challenge::Challenge;

/// The challenges of a registry, from all of its header fields.
pub fn challenge(fields: &str) {
    let _ = Challenge::best(fields.lines());
}
