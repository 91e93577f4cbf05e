//! Rounds of a race against an attacker.

use std::time::Instant;

use crate::waiting::PATIENCE;

/// Counts the rounds of a race. There are as many as the test asks for, and more until it has seen what it must see: an attacker may win for
/// a while, and a test in which nothing ever succeeds proves nothing.
#[derive(Debug)]
pub struct Race {
    round: usize,
    least: usize,
    began: Instant,
}

impl Race {
    /// A race of at least `least` rounds.
    #[must_use]
    pub fn of(least: usize) -> Self {
        Self { round: 0, least, began: Instant::now() }
    }

    /// Whether there is another round. `enough` says whether the test has seen what it must see; without that the race
    /// goes on for up to [`PATIENCE`].
    pub fn goes_on(&mut self, enough: bool) -> bool {
        let another = self.round < self.least || (!enough && self.began.elapsed() < PATIENCE);
        self.round += usize::from(another);
        another
    }

    /// The number of the present round, from 0 on.
    #[must_use]
    pub fn round(&self) -> usize {
        self.round - 1
    }

    /// How many rounds there were.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_has_its_rounds_and_goes_on_until_enough_was_seen() {
        let mut race = Race::of(2);
        let mut numbers = Vec::new();
        while race.goes_on(race.rounds() >= 4) {
            numbers.push(race.round());
        }
        assert_eq!(numbers, [0, 1, 2, 3]);
        let mut race = Race::of(2);
        while race.goes_on(true) {}
        assert_eq!(race.rounds(), 2);
    }
}
