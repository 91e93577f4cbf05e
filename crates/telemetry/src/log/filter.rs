use tracing_core::LevelFilter;
use tracing_core::Metadata;

use super::record::crate_of;

/// Which events are logged: a level for each crate, and one for all crates that are not named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    others: LevelFilter,
    crates: Vec<(&'static str, LevelFilter)>,
}

impl Filter {
    /// This level for every crate.
    #[must_use]
    pub fn new(others: LevelFilter) -> Self {
        Self { others, crates: Vec::new() }
    }

    /// Another level for one crate; a later call for the same crate wins.
    #[must_use]
    pub fn with(mut self, name: &'static str, level: LevelFilter) -> Self {
        self.crates.retain(|(known, _)| *known != name);
        self.crates.push((name, level));
        self
    }

    /// The level of a crate.
    #[must_use]
    pub fn level(&self, name: &str) -> LevelFilter {
        self.crates.iter().find(|(known, _)| *known == name).map_or(self.others, |(_, level)| *level)
    }

    pub(super) fn passes(&self, metadata: &Metadata<'_>) -> bool {
        // A span of ours gives its fields to the events of every crate below it.
        let is_own_span = metadata.is_span() && metadata.target() == "telemetry";
        is_own_span || *metadata.level() <= self.level(crate_of(metadata.target()))
    }

    /// The most verbose level of any crate.
    pub(super) fn most_verbose(&self) -> LevelFilter {
        // Spans of pods are at the level ERROR: they are made even where no event passes.
        let levels = self.crates.iter().map(|(_, level)| *level).chain([self.others, LevelFilter::ERROR]);
        levels.max().unwrap_or(LevelFilter::ERROR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_has_its_own_level_and_all_others_the_common_one() {
        let filter =
            Filter::new(LevelFilter::WARN).with("agent", LevelFilter::INFO).with("runtime", LevelFilter::OFF);
        assert_eq!(filter.level("agent"), LevelFilter::INFO);
        assert_eq!(filter.level("runtime"), LevelFilter::OFF);
        assert_eq!(filter.level("hyper"), LevelFilter::WARN);
        assert_eq!(filter.most_verbose(), LevelFilter::INFO);
        assert_eq!(filter.with("runtime", LevelFilter::DEBUG).level("runtime"), LevelFilter::DEBUG);
    }

    #[test]
    fn a_name_that_begins_like_a_crate_is_another_crate() {
        assert_eq!(crate_of("agent::pod::sync"), "agent");
        assert_eq!(crate_of("agent_x::pod"), "agent_x");
        assert_eq!(crate_of(""), "");
    }
}
