//! Two nodes' results of one suite: what passes on a kubelet passes on ours, or is an exception with a cause.

use super::ginkgo::SpecState;
use super::results::{ENOUGH, Results, Share, SpecResult};
use super::suites::{EXCEPTIONS, Exception};
use crate::{Error, Result};

/// What the comparison says.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// Specs that both nodes pass.
    pub both: usize,
    /// Specs that only ours passes.
    pub only_ours: usize,
    /// Specs that pass on the kubelet and not on ours, and are no exception; with what became of them on ours.
    pub regressions: Vec<(&'a str, Ours<'a>)>,
    /// Specs that pass on the kubelet and not on ours, and why.
    pub excepted: Vec<(&'a str, &'static str)>,
    /// Exceptions whose specs pass on ours: the list is no longer true.
    pub stale: Vec<&'static str>,
    /// The share of the suite that the kubelet passes.
    pub kubelet: Share,
    /// When the kubelet's were run.
    pub date: &'a str,
}

/// What became of a spec on our node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ours<'a> {
    /// It was run, or asked for.
    Asked(&'a SpecResult),
    /// It is not in the results.
    Missing,
}

impl Comparison<'_> {
    /// Whether the kubelet passes enough of the suite for the comparison to count.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.kubelet.is_enough()
    }

    /// Whether ours passes what the kubelet passes, but for the exceptions, and the comparison counts.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.counts() && self.regressions.is_empty() && self.stale.is_empty()
    }

    /// Its lines for a reader.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.regressions.iter().map(|(name, ours)| ours.line(name)).collect();
        lines.extend(self.excepted.iter().map(|(name, cause)| format!("exception: {name}: {cause}")));
        let pass = |spec| format!("no longer an exception: the specs named {spec:?} pass");
        lines.extend(self.stale.iter().map(pass));
        let Share { passed, of } = self.kubelet;
        let (percent, date) = (self.kubelet.percent(), self.date);
        let share = format!("the kubelet of {date} passes {passed} of {of} ({percent} %)");
        lines.push(if self.counts() {
            share
        } else {
            format!("{share}, less than {ENOUGH} %: the comparison does not count")
        });
        let (only_kubelet, excepted) = (self.regressions.len() + self.excepted.len(), self.excepted.len());
        lines.push(format!(
            "both pass {}, only ours {}, only the kubelet {only_kubelet} ({excepted} are exceptions)",
            self.both, self.only_ours
        ));
        lines
    }
}

impl Ours<'_> {
    fn line(self, name: &str) -> String {
        let what = match self {
            Self::Missing => "is not in our results".to_owned(),
            Self::Asked(spec) => {
                let what = match spec.state {
                    SpecState::Skipped => "skips itself on ours",
                    SpecState::NotRun => "was not reached on ours",
                    SpecState::LeftOut => "is left out on ours",
                    SpecState::Passed | SpecState::Failed => "fails on ours",
                };
                let colon = if spec.message.is_empty() { "" } else { ": " };
                format!("{what}{colon}{}", spec.message)
            }
        };
        format!("passes only on the kubelet: {name}: it {what}")
    }
}

/// Compares the results of a kubelet with ours. Ours can be of a part of the suite, the kubelet's cannot.
///
/// # Errors
/// If the results are not of the same suite of the same version, or the kubelet's are of a part of it.
pub fn compare<'a>(kubelet: &'a Results, ours: &'a Results) -> Result<Comparison<'a>> {
    let refused = |cause: String| Err(Error::Incomparable { suite: kubelet.suite.clone(), cause });
    if !kubelet.whole {
        return refused("the kubelet's are of a part of the suite".into());
    }
    if kubelet.node.ends_with(" agent") {
        return refused(format!("the first are of {:?}, which is no kubelet", kubelet.node));
    }
    for (what, one, other) in
        [("suites", &kubelet.suite, &ours.suite), ("versions", &kubelet.upstream, &ours.upstream)]
    {
        if one != other {
            return refused(format!("they are of different {what}, {one} and {other}"));
        }
    }
    Ok(difference(kubelet, ours, EXCEPTIONS))
}

fn difference<'a>(
    kubelet: &'a Results,
    ours: &'a Results,
    exceptions: &'static [Exception],
) -> Comparison<'a> {
    let find = |name: &str| match ours.specs.binary_search_by(|spec| spec.name.as_str().cmp(name)) {
        Ok(at) => ours.specs.get(at).map_or(Ours::Missing, Ours::Asked),
        Err(_) => Ours::Missing,
    };
    let here = || exceptions.iter().filter(|one| one.nodes.contains(&ours.node.as_str()));
    let (mut regressions, mut excepted, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for SpecResult { name, .. } in kubelet.specs.iter().filter(|spec| spec.state == SpecState::Passed) {
        let exception = here().find(|one| name.contains(one.spec));
        match (find(name), exception) {
            (Ours::Asked(SpecResult { state: SpecState::Passed, .. }), _) => both.push(name.as_str()),
            // A part of the suite says nothing of the rest.
            (Ours::Missing, _) if !ours.whole => {}
            (_, Some(exception)) => excepted.push((name.as_str(), exception.cause)),
            (found, None) => regressions.push((name.as_str(), found)),
        }
    }
    let is_stale = |one: &&Exception| {
        both.iter().any(|name| name.contains(one.spec))
            && !excepted.iter().any(|(name, _)| name.contains(one.spec))
    };
    let stale = here().filter(is_stale).map(|one| one.spec).collect();
    let (both, passed) = (both.len(), ours.count(SpecState::Passed));
    let share = kubelet.share();
    Comparison {
        both,
        only_ours: passed - both,
        regressions,
        excepted,
        stale,
        kubelet: share,
        date: &kubelet.date,
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;
    use SpecState::{Failed, LeftOut, NotRun, Passed, Skipped};

    const LIST: &[Exception] = &[Exception { spec: "rare", nodes: &["containerd agent"], cause: "a cause" }];

    fn names<'a>(found: &[(&'a str, Ours<'_>)]) -> Vec<&'a str> {
        found.iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn what_passes_on_the_kubelet_only_is_named_unless_it_is_an_exception() {
        let kubelet = results(
            "containerd",
            &[("a", Passed), ("b", Passed), ("c", Failed), ("d", Skipped), ("e rare", Passed), ("f", Passed)],
        );
        let ours = results(
            "containerd agent",
            &[("a", Passed), ("b", Failed), ("c", Passed), ("d", Failed), ("e rare", Failed), ("f", NotRun)],
        );
        let found = difference(&kubelet, &ours, LIST);
        assert_eq!((found.both, found.only_ours), (1, 1));
        assert_eq!(names(&found.regressions), ["b", "f"]);
        assert_eq!(found.excepted, [("e rare", "a cause")]);
        assert!(found.stale.is_empty() && !found.holds());
    }

    #[test]
    fn an_exception_is_one_on_its_nodes_only_and_is_reported_once_it_passes() {
        let kubelet = results("containerd", &[("rare 1", Passed), ("rare 2", Passed)]);
        let here = results("containerd agent", &[("rare 1", Passed), ("rare 2", Passed)]);
        let found = difference(&kubelet, &here, LIST);
        assert_eq!(found.stale, ["rare"]);
        assert!(!found.holds());
        let half = results("containerd agent", &[("rare 1", Passed), ("rare 2", Failed)]);
        assert!(difference(&kubelet, &half, LIST).holds());
        let elsewhere = results("wardlet agent", &[("rare 1", Passed), ("rare 2", Failed)]);
        assert_eq!(names(&difference(&kubelet, &elsewhere, LIST).regressions), ["rare 2"]);
    }

    #[test]
    fn a_spec_that_a_whole_run_does_not_have_is_missing_and_a_part_is_compared_as_far_as_it_goes() {
        let kubelet = results("containerd", &[("a", Passed), ("b", Passed)]);
        let whole = results("containerd agent", &[("a", Passed)]);
        let found = difference(&kubelet, &whole, LIST);
        assert_eq!(found.regressions, [("b", Ours::Missing)]);
        let part = Results { whole: false, ..whole };
        assert!(difference(&kubelet, &part, LIST).holds());
    }

    #[test]
    fn a_comparison_with_a_kubelet_below_nine_tenths_does_not_count() {
        let mut specs: Vec<(&str, SpecState)> =
            "abcdefgh".split_terminator("").skip(1).zip([Passed; 8]).collect();
        specs.extend([("i", Failed), ("j", LeftOut), ("k", Skipped)]);
        let kubelet = results("containerd", &specs);
        let ours = results("containerd agent", &specs);
        let found = difference(&kubelet, &ours, LIST);
        assert_eq!(found.kubelet, Share { passed: 8, of: 10 });
        assert!(found.regressions.is_empty() && !found.counts() && !found.holds());
        let said = found.lines().join("\n");
        assert!(said.contains("8 of 10 (80 %), less than 90 %: the comparison does not count"), "{said}");
    }

    #[test]
    fn results_that_cannot_be_compared_are_refused_with_the_way_out() {
        let kubelet = results("containerd", &[("a", Passed)]);
        let ours = results("containerd agent", &[("a", Passed)]);
        assert!(compare(&kubelet, &ours).expect("comparable").holds());
        let swapped = compare(&ours, &kubelet).expect_err("the agent is no kubelet");
        assert!(swapped.hint().is_some_and(|hint| hint.contains("testbed e2e node")));
        let other = Results { suite: "conformance".into(), ..ours.clone() };
        assert!(compare(&kubelet, &other).expect_err("another suite").to_string().contains("conformance"));
        let newer = Results { upstream: "e2e.test 1.38.0".into(), ..ours.clone() };
        assert!(compare(&kubelet, &newer).expect_err("another version").to_string().contains("1.38.0"));
        let part = Results { whole: false, ..kubelet };
        assert!(compare(&part, &ours).expect_err("a part").to_string().contains("part"));
    }
}
