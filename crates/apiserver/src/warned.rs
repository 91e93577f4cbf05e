//! Warnings that are given once each.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tracing::warn;

/// As many different warnings are remembered, and given.
const MOST: usize = 256;

/// Gives each warning once.
#[derive(Debug, Default)]
pub(crate) struct WarnOnce(Mutex<BTreeSet<String>>);

impl WarnOnce {
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if given.len() < MOST && !given.contains(&text) {
            warn!("{text}");
            given.insert(text);
        }
    }

    /// The warnings that were given.
    #[cfg(test)]
    pub(crate) fn given(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_few_and_different() {
        let warned = WarnOnce::default();
        for number in 0..2 * MOST {
            warned.warn("the same");
            warned.warn(format!("number {number}"));
        }
        assert_eq!(warned.given().len(), MOST);
        assert!(warned.given().contains(&"the same".to_owned()));
    }
}
