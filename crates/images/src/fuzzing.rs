//! Readers of what registries send that nobody else has to call, for fuzz targets: they return whatever the text is.

use crate::pull::challenge::Challenge;

/// What a registry wants to see, from all of its fields.
pub fn challenge(fields: &str) {
    let _ = Challenge::best(fields.lines());
}
