use std::fmt;
use std::str::FromStr;

use crate::label::{Part, text_serde};
use crate::{Level, SelinuxOptions};

/// A label of which some parts may be unknown, printed with nothing in their place: `:::s0:c1,c2`.
///
/// Its level is canonical where it can be read, and as given where it cannot.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartialLabel {
    user: String,
    role: String,
    kind: String,
    level: String,
}

/// How two labels relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// All parts are the same.
    Same,
    /// No part differs, but one side lacks some: they may be the same.
    Incomparable,
    /// This part differs, the first that does.
    Different(Part),
}

impl PartialLabel {
    /// What these options say.
    #[must_use]
    pub fn of(options: &SelinuxOptions) -> Self {
        Self::from_parts([options.user(), options.role(), options.kind(), options.level()])
    }

    fn from_parts([user, role, kind, level]: [Option<&str>; 4]) -> Self {
        let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
        let canonical = |l: Level| l.to_string();
        let level = text(level);
        Self {
            user: text(user),
            role: text(role),
            kind: text(kind),
            level: level.parse().map(canonical).unwrap_or(level),
        }
    }

    /// Whether no part is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Part by part. The node will fill in a user, role or type that one side lacks, with an unknown value; a level is
    /// never filled in, so that a missing one differs from any other.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Comparison {
        let filled_in = [
            (Part::User, &self.user, &other.user),
            (Part::Role, &self.role, &other.role),
            (Part::Type, &self.kind, &other.kind),
        ];
        let mut result = Comparison::Same;
        for (part, a, b) in filled_in.into_iter().filter(|(_, a, b)| a != b) {
            if !a.is_empty() && !b.is_empty() {
                return Comparison::Different(part);
            }
            result = Comparison::Incomparable;
        }
        if self.level == other.level { result } else { Comparison::Different(Part::Level) }
    }
}

impl FromStr for PartialLabel {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(4, ':');
        Ok(Self::from_parts([parts.next(), parts.next(), parts.next(), parts.next()]))
    }
}

impl fmt::Display for PartialLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        write!(f, "{}:{}:{}:{}", self.user, self.role, self.kind, self.level)
    }
}

text_serde!(PartialLabel);

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(a: &str, b: &str) -> Comparison {
        let read = |t: &str| t.parse::<PartialLabel>().unwrap();
        let (there, back) = (read(a).compare(&read(b)), read(b).compare(&read(a)));
        assert_eq!(there, back, "{a} and {b}");
        there
    }

    #[test]
    fn missing_users_roles_and_types_are_incomparable() {
        assert_eq!(compare("u:r:t:s0:c1", "u:r:t:s0:c1"), Comparison::Same);
        assert_eq!(compare(":::s0:c1", "u:r:t:s0:c1"), Comparison::Incomparable);
        assert_eq!(compare("::container_t:s0", ":::s0"), Comparison::Incomparable);
        assert_eq!(compare("u:::s0", ":r::s0"), Comparison::Incomparable);
    }

    #[test]
    fn parts_that_both_name_differ() {
        assert_eq!(compare("u:::s0", "v:::s0"), Comparison::Different(Part::User));
        assert_eq!(compare(":r::s0", "u:q::s0"), Comparison::Different(Part::Role));
        assert_eq!(compare("::spc_t:s0", "::container_t:s0"), Comparison::Different(Part::Type));
    }

    #[test]
    fn a_missing_level_differs_from_every_other() {
        assert_eq!(compare("", ":::s0:c1,c2"), Comparison::Different(Part::Level));
        assert_eq!(compare(":::s0:c1,c2", ":::s0:c1,c3"), Comparison::Different(Part::Level));
        assert_eq!(compare("", "::container_t:"), Comparison::Incomparable);
    }

    #[test]
    fn levels_are_compared_by_meaning() {
        assert_eq!(compare(":::s0:c2,c1", ":::s0:c1,c2"), Comparison::Same);
        assert_eq!(compare(":::strange", ":::strange"), Comparison::Same);
    }

    #[test]
    fn options_print_as_upstream_prints_them() {
        let options = SelinuxOptions { level: Some("s0:c2,c1".into()), ..Default::default() };
        assert_eq!(PartialLabel::of(&options).to_string(), ":::s0:c1,c2");
        assert_eq!(PartialLabel::of(&SelinuxOptions::default()).to_string(), "");
    }
}
