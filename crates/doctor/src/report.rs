//! All checks together, and what they come to.

use serde::Serialize;

use crate::check::{Check, Severity, Verdict};

/// All checks of a node. It is part of the JSON contract: fields are added, never changed.
#[derive(Debug, Serialize)]
pub struct Report {
    /// In the order of their groups.
    pub checks: Vec<Check>,
}

/// What the checks of a report come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overall {
    /// All that pods need holds.
    Met,
    /// Something that pods need does not hold.
    NotMet,
    /// Nothing that pods need fails, but something of it could not be found out.
    Unknown,
}

impl Report {
    /// In the order of the groups; within one, as they were made.
    #[must_use]
    pub fn new(mut checks: Vec<Check>) -> Self {
        checks.sort_by_key(|check| check.group);
        Self { checks }
    }

    /// What the needs come to: one that fails outweighs one that could not be determined.
    #[must_use]
    pub fn overall(&self) -> Overall {
        let needed = |verdict| {
            let mut needed = self.checks.iter().filter(|check| check.severity == Severity::Needed);
            needed.any(|check| check.verdict == verdict)
        };
        if needed(Verdict::Fails) {
            Overall::NotMet
        } else if needed(Verdict::Open) {
            Overall::Unknown
        } else {
            Overall::Met
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Desk, Evidence, Fault, Group};

    const DESK: Desk = Desk::new(Group::Kernel, Evidence::Files);

    fn fault() -> Fault {
        Fault::new("it is so", "sysctl -w a.b=1")
    }

    #[test]
    fn what_is_needed_decides_and_a_failure_outweighs_a_doubt() {
        let overall =
            |checks: &[&Check]| Report::new(checks.iter().map(|c| (*c).clone()).collect()).overall();
        let (good, bad, open) =
            (DESK.holds("a", "1"), DESK.fails("b", "0", fault()), DESK.open("c", fault()));
        assert_eq!(overall(&[&good]), Overall::Met);
        assert_eq!(overall(&[&good, &open, &bad]), Overall::NotMet);
        assert_eq!(overall(&[&good, &open]), Overall::Unknown);
        assert_eq!(overall(&[&good, &bad.clone().useful(), &open.clone().useful()]), Overall::Met);
    }
}
