use std::fmt;

use serde::de::{self, Expected, Unexpected};

use super::Fault;
use crate::finding::Problem;
use crate::place::{Path, Position};

/// What a type says against a value. The reader that made the call adds the place.
#[derive(Debug)]
pub(super) struct TypeError(Box<Cause>);

#[derive(Debug)]
struct Cause {
    problem: Problem,
    place: Option<(Position, String, Vec<String>)>,
}

impl TypeError {
    fn of(problem: Problem) -> Self {
        Self(Box::new(Cause { problem, place: None }))
    }

    pub(super) fn located(mut self, at: Position, path: &Path<'_>) -> Self {
        let names = || path.names().into_iter().map(str::to_owned).collect();
        self.0.place.get_or_insert_with(|| (at, path.to_string(), names()));
        self
    }

    pub(super) fn into_fault(self, at: Position, path: &str) -> Fault {
        let (at, path, names) = self.0.place.unwrap_or_else(|| (at, path.to_owned(), Vec::new()));
        Fault { at, path, names, problem: self.0.problem }
    }
}

impl std::error::Error for TypeError {}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.problem.fmt(f)
    }
}

impl de::Error for TypeError {
    fn custom<T: fmt::Display>(words: T) -> Self {
        Self::of(Problem::Syntax(words.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::of(Problem::WrongType { expected: expected.to_string(), found: words(&found) })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }
}

/// The value in few words: long texts are cut.
fn words(found: &Unexpected<'_>) -> String {
    match found {
        Unexpected::Str(text) if text.chars().count() > 40 => {
            format!("string {:?}...", text.chars().take(40).collect::<String>())
        }
        Unexpected::Map => "a mapping".into(),
        Unexpected::Seq => "a list".into(),
        other => other.to_string().replace('`', ""),
    }
}
