use std::fmt;
use std::str::FromStr;

use crate::LabelError;
use crate::categories::CATEGORIES;
use crate::{CategoryPair, label::text_serde};

/// A run of categories, both ends part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Run {
    first: u16,
    last: u16,
}

/// A set of categories, in the one form that equal sets share: runs in order that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Categories {
    runs: Vec<Run>,
}

/// One level: a sensitivity and categories, `s0:c1,c2`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sensitivity {
    number: u16,
    categories: Categories,
}

/// The last part of a label: one level, or two of which the second covers the first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level {
    low: Sensitivity,
    high: Sensitivity,
}

/// The number in `s0` or `c12`, written as the kernel writes it: no sign, no leading zero.
fn numbered(text: &str, letter: char) -> Option<u16> {
    let digits = text.strip_prefix(letter)?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    plain.then(|| digits.parse().ok()).flatten()
}

fn category(text: &str) -> Option<u16> {
    numbered(text, 'c').filter(|&n| u32::from(n) < CATEGORIES)
}

impl Run {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once('.') {
            None => category(text).map(|n| Self { first: n, last: n }),
            Some((first, last)) => {
                let run = Self { first: category(first)?, last: category(last)? };
                // As the kernel: a run of one is not written as a run.
                (run.first < run.last).then_some(run)
            }
        }
    }
}

impl Categories {
    fn of(mut given: Vec<Run>) -> Self {
        given.sort_unstable();
        let mut runs: Vec<Run> = Vec::with_capacity(given.len());
        for run in given {
            match runs.last_mut() {
                Some(before) if run.first <= before.last.saturating_add(1) => {
                    before.last = before.last.max(run.last);
                }
                _ => runs.push(run),
            }
        }
        Self { runs }
    }

    /// Whether every category of `other` is in this set.
    fn cover(&self, other: &Self) -> bool {
        let inside = |r: &Run| self.runs.iter().any(|s| s.first <= r.first && r.last <= s.last);
        other.runs.iter().all(inside)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.runs.iter().flat_map(|r| r.first..=r.last)
    }
}

impl fmt::Display for Categories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, run) in self.runs.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match run.last - run.first {
                0 => write!(f, "{comma}c{}", run.first)?,
                1 => write!(f, "{comma}c{},c{}", run.first, run.last)?,
                _ => write!(f, "{comma}c{}.c{}", run.first, run.last)?,
            }
        }
        Ok(())
    }
}

impl Sensitivity {
    fn parse(text: &str) -> Option<Self> {
        let (number, categories) = match text.split_once(':') {
            None => (text, Vec::new()),
            Some((number, list)) => (number, list.split(',').map(Run::parse).collect::<Option<_>>()?),
        };
        Some(Self { number: numbered(number, 's')?, categories: Categories::of(categories) })
    }

    fn dominates(&self, other: &Self) -> bool {
        self.number >= other.number && self.categories.cover(&other.categories)
    }

    /// The number of the sensitivity.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The categories.
    #[must_use]
    pub fn categories(&self) -> &Categories {
        &self.categories
    }
}

impl fmt::Display for Sensitivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.number)?;
        if self.categories.is_empty() { Ok(()) } else { write!(f, ":{}", self.categories) }
    }
}

impl Level {
    /// The level with these two categories, what one pod has and no other.
    #[must_use]
    pub fn of_pair(pair: CategoryPair) -> Self {
        let single = |n| u16::try_from(n).ok().map(|n| Run { first: n, last: n });
        let runs = [single(pair.low()), single(pair.high())].into_iter().flatten().collect();
        let level = Sensitivity { number: 0, categories: Categories::of(runs) };
        Self { low: level.clone(), high: level }
    }

    /// The pair that a process of this level has to itself or shares with others: the categories of the upper end, where
    /// they are two. The kernel compares the upper end of a process with the level of a file.
    #[must_use]
    pub fn pair(&self) -> Option<CategoryPair> {
        let mut categories = self.high.categories.iter().map(u32::from);
        match (categories.next(), categories.next(), categories.next()) {
            (Some(low), Some(high), None) => CategoryPair::new(low, high).ok(),
            _ => None,
        }
    }

    /// The lower end.
    #[must_use]
    pub fn low(&self) -> &Sensitivity {
        &self.low
    }

    /// The upper end; the same as the lower where only one was given.
    #[must_use]
    pub fn high(&self) -> &Sensitivity {
        &self.high
    }
}

impl FromStr for Level {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        let bad = || LabelError::Level { text: text.to_owned() };
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let low = Sensitivity::parse(low).ok_or_else(bad)?;
        let high = Sensitivity::parse(high).ok_or_else(bad)?;
        if high.dominates(&low) {
            Ok(Self { low, high })
        } else {
            Err(LabelError::Range { text: text.to_owned() })
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.low == self.high { self.low.fmt(f) } else { write!(f, "{}-{}", self.low, self.high) }
    }
}

text_serde!(Level);

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        text.parse::<Level>().unwrap().to_string()
    }

    #[test]
    fn levels_are_printed_as_the_kernel_prints_them() {
        for (given, printed) in [
            ("s0", "s0"),
            ("s0:c2,c1", "s0:c1,c2"),
            ("s0:c10,c0", "s0:c0,c10"),
            ("s0:c1,c1", "s0:c1"),
            ("s0:c0.c3", "s0:c0.c3"),
            ("s0:c0,c1,c2,c3", "s0:c0.c3"),
            ("s0:c0.c1", "s0:c0,c1"),
            ("s0:c5,c0.c3,c4", "s0:c0.c5"),
            ("s0:c0.c5,c2.c9,c20", "s0:c0.c9,c20"),
            ("s0-s0", "s0"),
            ("s0-s0:c0.c1023", "s0-s0:c0.c1023"),
            ("s0:c2,c1-s15:c3.c5,c1,c2", "s0:c1,c2-s15:c1.c5"),
        ] {
            assert_eq!(canonical(given), printed, "{given}");
        }
    }

    #[test]
    fn what_is_no_level_is_refused() {
        let wrong = [
            "",
            "s",
            "s0:",
            "s0:c",
            "s0:c1,",
            "s0:,c1",
            "s0:c01",
            "s00",
            "S0",
            "s0:c1024",
            "s0:c3.c3",
            "s0:c3.c1",
            "s0:c1.c2.c3",
            "s0:c1:c2",
            "s0-",
            "-s0",
            "s0-s1-s2",
            " s0",
            "s0\n",
            "s0:c+1",
            "s65536",
            "c1,c2",
            "s0:c99999999999999999999",
        ];
        for text in wrong {
            assert!(matches!(text.parse::<Level>(), Err(LabelError::Level { .. })), "{text:?}");
        }
    }

    #[test]
    fn the_upper_end_covers_the_lower_one() {
        for text in ["s1-s0", "s0:c1-s0", "s0:c1,c2-s0:c1,c3", "s2:c1-s1:c1"] {
            assert!(matches!(text.parse::<Level>(), Err(LabelError::Range { .. })), "{text}");
        }
        assert!("s0:c1.c3-s0:c0.c5".parse::<Level>().is_ok());
    }

    #[test]
    fn a_pair_of_categories_is_a_level() {
        let pair = CategoryPair::new(7, 1023).unwrap();
        assert_eq!(Level::of_pair(pair).to_string(), "s0:c7,c1023");
        assert_eq!(Level::of_pair(pair), "s0:c1023,c7".parse().unwrap());
        assert_eq!(Level::of_pair(pair).pair(), Some(pair));
    }

    #[test]
    fn only_two_categories_are_a_pair() {
        let pair = |text: &str| text.parse::<Level>().unwrap().pair().map(|pair| pair.to_string());
        assert_eq!(pair("s0:c2,c1").as_deref(), Some("c1,c2"));
        assert_eq!(pair("s0-s0:c4,c9").as_deref(), Some("c4,c9"));
        for other in ["s0", "s0:c1", "s0:c1.c3", "s0:c1,c2-s0:c0.c1023"] {
            assert_eq!(pair(other), None, "{other}");
        }
    }
}
