use std::collections::BTreeSet;

use crate::finding::{Finding, MAX_FINDINGS, Problem};
use crate::object::Object;
use crate::place::Path;

/// What was found so far in one object.
pub(super) struct Report<'a> {
    object: &'a Object,
    findings: Vec<Finding>,
}

impl<'a> Report<'a> {
    pub(super) fn of(object: &'a Object) -> Self {
        Self { object, findings: Vec::new() }
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    pub(super) fn add(&mut self, path: &Path<'_>, problem: Problem) {
        let problem = match self.findings.len() {
            0..MAX_FINDINGS => problem,
            MAX_FINDINGS => Problem::too_many(),
            _ => return,
        };
        self.findings.push(Finding {
            file: self.object.file.clone(),
            at: self.object.tree.place_of(path),
            path: path.to_string(),
            problem,
        });
    }

    pub(super) fn required(&mut self, path: &Path<'_>) {
        self.add(path, Problem::Required);
    }

    pub(super) fn invalid(&mut self, path: &Path<'_>, value: impl std::fmt::Display, rule: &str) {
        self.add(path, Problem::invalid(value, rule));
    }

    pub(super) fn forbidden(&mut self, path: &Path<'_>, rule: &str) {
        self.add(path, Problem::forbidden(rule));
    }

    /// Text that must be there and follow a rule.
    pub(super) fn needs(&mut self, path: &Path<'_>, value: &str, rule: Rule) {
        if value.is_empty() { self.required(path) } else { self.follows(path, value, rule) }
    }

    /// Text that must follow a rule if it is there.
    pub(super) fn may(&mut self, path: &Path<'_>, value: Option<&String>, rule: Rule) {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            self.follows(path, value, rule);
        }
    }

    fn follows(&mut self, path: &Path<'_>, value: &str, rule: Rule) {
        if let Err(words) = rule(value) {
            self.invalid(path, shown(value), words);
        }
    }

    /// Text that must be one of these if it is there.
    pub(super) fn one_of(&mut self, path: &Path<'_>, value: Option<&String>, allowed: &[&'static str]) {
        if let Some(value) = value.filter(|v| !v.is_empty() && !allowed.contains(&v.as_str())) {
            self.add(path, Problem::NotSupported { value: shown(value), allowed: allowed.to_vec() });
        }
    }

    /// Text that must be one of these if it is there; an empty one is not.
    pub(super) fn exactly(&mut self, path: &Path<'_>, value: Option<&String>, allowed: &[&'static str]) {
        match value {
            Some(value) if value.is_empty() => self.required(path),
            value => self.one_of(path, value, allowed),
        }
    }

    /// Text that must be there and be one of these.
    pub(super) fn choice(&mut self, path: &Path<'_>, value: &str, allowed: &[&'static str]) {
        self.exactly(path, Some(&value.to_owned()), allowed);
    }

    /// Text that must be there, whatever it is.
    pub(super) fn present(&mut self, path: &Path<'_>, value: &str) {
        if value.is_empty() {
            self.required(path);
        }
    }

    /// A number that must be in the range if it is there.
    pub(super) fn ranged(
        &mut self,
        path: &Path<'_>,
        value: Option<impl Into<i64>>,
        range: std::ops::RangeInclusive<i64>,
    ) {
        let Some(value) = value.map(Into::into).filter(|value| !range.contains(value)) else { return };
        let rule = match (*range.start(), *range.end()) {
            (0, i64::MAX) => "must not be negative".to_owned(),
            (start, i64::MAX) => format!("must be at least {start}"),
            (start, end) => format!("must be from {start} to {end}"),
        };
        self.invalid(path, value, &rule);
    }

    /// A number that must not be negative if it is there.
    pub(super) fn natural(&mut self, path: &Path<'_>, value: Option<impl Into<i64>>) {
        self.ranged(path, value, 0..=i64::MAX);
    }

    /// A list that may have at most so many items.
    pub(super) fn at_most(&mut self, path: &Path<'_>, count: usize, limit: usize) {
        if count > limit {
            self.invalid(path, count, &format!("there may be at most {limit}"));
        }
    }

    /// Text that is there only once among `seen`.
    pub(super) fn once<'v>(&mut self, path: &Path<'_>, value: &'v str, seen: &mut BTreeSet<&'v str>) {
        if !value.is_empty() && !seen.insert(value) {
            self.add(path, Problem::Duplicate { value: shown(value) });
        }
    }

    /// Just one of these fields, which are named with whether they are set.
    pub(super) fn just_one(&mut self, path: &Path<'_>, fields: &[(&str, bool)]) {
        let set: Vec<&str> = fields.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect();
        match set.as_slice() {
            [] => self.required(path),
            [_] => {}
            [first, others @ ..] => {
                for other in others {
                    self.forbidden(
                        &path.field(other),
                        &format!("there may be only one, and {first} is there"),
                    );
                }
            }
        }
    }
}

/// A rule that text follows, or the words for what it is.
pub(super) type Rule = fn(&str) -> Result<(), &'static str>;

/// A value as messages show it: long ones are cut.
pub(super) fn shown(value: &str) -> String {
    match value.char_indices().nth(60) {
        Some((end, _)) => format!("{:?}...", value.get(..end).unwrap_or_default()),
        None => format!("{value:?}"),
    }
}

/// The items of a list that may be missing, numbered.
pub(super) fn each<T>(list: Option<&Vec<T>>) -> impl Iterator<Item = (usize, &T)> {
    list.into_iter().flatten().enumerate()
}
