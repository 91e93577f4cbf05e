//! `/etc/subuid` and `/etc/subgid`, and what `getsubids` prints where nsswitch names another source.

use std::fmt;

use super::decimal;
use crate::id::ID_COUNT;
use crate::span::{HostSpan, SpanError};

/// One good line: `owner` may map these host IDs in user namespaces of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubidEntry {
    /// The line, from 1.
    pub line: usize,
    /// A user name, or a user ID in decimal.
    pub owner: String,
    /// What it may map.
    pub ids: HostSpan,
}

/// One line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SubidProblem {
    /// The line, from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
    /// Why it cannot be used.
    pub cause: SubidCause,
}

/// Why a line cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubidCause {
    /// A line of subuid or subgid with more or fewer than two colons.
    #[error("expected three fields, name:first:count")]
    NotThreeFields,
    /// A line of `getsubids` with more or fewer than four words.
    #[error("expected four words, index: name first count")]
    NotFourFields,
    /// Nothing before the first colon.
    #[error("the owner is empty")]
    EmptyOwner,
    /// A field that is no decimal number of at most 64 bits.
    #[error("{field} {text:?} is not a plain decimal number")]
    BadNumber {
        /// Which field.
        field: &'static str,
        /// What it says.
        text: String,
    },
    /// A count of 0.
    #[error("the count is 0")]
    Empty,
    /// IDs that do not exist.
    #[error("{count} IDs from {first} pass 4294967294, the last ID there is")]
    PastTheEnd {
        /// The first ID.
        first: u64,
        /// How many IDs the line claims.
        count: u64,
    },
}

/// All lines of one file, good and bad.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subids {
    /// The good lines, in the order of the file.
    pub entries: Vec<SubidEntry>,
    /// The bad lines, in the order of the file.
    pub problems: Vec<SubidProblem>,
}

impl Subids {
    /// The good lines of this owner.
    pub fn of<'a>(&'a self, owner: &'a str) -> impl Iterator<Item = &'a SubidEntry> {
        self.entries.iter().filter(move |e| e.owner == owner)
    }

    /// The bad lines that begin with this owner.
    pub fn problems_of<'a>(&'a self, owner: &'a str) -> impl Iterator<Item = &'a SubidProblem> {
        self.problems.iter().filter(move |p| p.owner() == owner)
    }
}

impl SubidProblem {
    fn owner(&self) -> &str {
        self.text.split_once(':').map_or(self.text.as_str(), |(owner, _)| owner)
    }

    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> String {
        match &self.cause {
            SubidCause::NotThreeFields => "write name:first:count, for example kubelet:65536:7208960".into(),
            SubidCause::NotFourFields => {
                "each line of getsubids is `index: name first count`; check the program's version".into()
            }
            SubidCause::EmptyOwner => "put a user name or a user ID before the first colon".into(),
            SubidCause::BadNumber { field, .. } => {
                format!(
                    "write {field} as plain digits, at most 4294967295: no sign, blank, leading zero or 0x"
                )
            }
            SubidCause::Empty => "remove the line, or give it a count of at least 1".into(),
            SubidCause::PastTheEnd { first, .. } => match ID_COUNT.checked_sub(*first) {
                Some(fits) if fits > 0 => format!("the largest count that fits from {first} is {fits}"),
                _ => "start at 4294967294 or lower".into(),
            },
        }
    }
}

impl fmt::Display for SubidProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} {:?}: {}", self.line, self.text, self.cause)
    }
}

/// Reads a whole file. It never fails as a whole: a bad line of another user must not stop the node, so the caller
/// decides which problems matter.
///
/// Lines end at `\n` alone: shadow refuses a number with a `\r` behind it, and so must we.
#[must_use]
pub fn parse_subids(text: &str) -> Subids {
    let mut subids = Subids::default();
    for (text, line) in text.split('\n').zip(1..) {
        if text.trim_ascii().is_empty() || text.starts_with('#') {
            continue;
        }
        match parse_line(text) {
            Ok((owner, ids)) => subids.entries.push(SubidEntry { line, owner: owner.to_owned(), ids }),
            Err(cause) => subids.problems.push(SubidProblem { line, text: text.to_owned(), cause }),
        }
    }
    subids
}

fn parse_line(text: &str) -> Result<(&str, HostSpan), SubidCause> {
    let mut fields = text.split(':');
    let (Some(owner), Some(first), Some(count), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(SubidCause::NotThreeFields);
    };
    if owner.is_empty() {
        return Err(SubidCause::EmptyOwner);
    }
    Ok((owner, span(first, count)?))
}

/// Reads what `getsubids NAME` printed: lines of `index: name first count`. Any bad line is an
/// error, since all of them are the same owner's.
pub fn parse_getsubids(output: &str) -> Result<Vec<HostSpan>, SubidProblem> {
    let lines = output.lines().zip(1..).filter(|(text, _)| !text.trim_ascii().is_empty());
    lines
        .map(|(text, line)| {
            parse_printed(text).map_err(|cause| SubidProblem { line, text: text.to_owned(), cause })
        })
        .collect()
}

fn parse_printed(text: &str) -> Result<HostSpan, SubidCause> {
    let mut words = text.split_ascii_whitespace();
    let (Some(index), Some(_), Some(first), Some(count), None) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Err(SubidCause::NotFourFields);
    };
    number("index", index.strip_suffix(':').unwrap_or_default())?;
    span(first, count)
}

fn span(first: &str, count: &str) -> Result<HostSpan, SubidCause> {
    HostSpan::new(number("first", first)?, number("count", count)?).map_err(|e| match e {
        SpanError::Empty { .. } => SubidCause::Empty,
        SpanError::PastTheEnd { first, length } => SubidCause::PastTheEnd { first, count: length },
    })
}

fn number(field: &'static str, text: &str) -> Result<u64, SubidCause> {
    decimal(text).ok_or_else(|| SubidCause::BadNumber { field, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn ids(first: u64, count: u64) -> HostSpan {
        HostSpan::new(first, count).unwrap()
    }

    fn cause_of(text: &str) -> SubidCause {
        let subids = parse_subids(text);
        assert!(subids.entries.is_empty(), "{text:?}");
        let [problem] = subids.problems.as_slice() else { panic!("{text:?}: {subids:?}") };
        assert_eq!((problem.line, problem.text.as_str()), (1, text));
        problem.cause.clone()
    }

    #[test]
    fn names_and_user_ids_own_ranges_and_an_owner_may_have_several() {
        let subids = parse_subids("kubelet:65536:7208960\n1000:100000:65536\nkubelet:8000000:1\n");
        assert_eq!(subids.problems, []);
        let lines: Vec<_> = subids.of("kubelet").map(|e| (e.line, e.ids)).collect();
        assert_eq!(lines, [(1, ids(65_536, 7_208_960)), (3, ids(8_000_000, 1))]);
        assert_eq!(subids.of("1000").map(|e| e.ids).collect::<Vec<_>>(), [ids(100_000, 65_536)]);
        assert_eq!(subids.of("kube").count(), 0);
    }

    #[test]
    fn blank_lines_and_comments_are_ignored_but_counted() {
        let subids = parse_subids("# who:may:map\n\n \t\nroot:65536:65536");
        assert_eq!(subids.problems, []);
        assert_eq!(subids.entries, [SubidEntry { line: 4, owner: "root".into(), ids: ids(65_536, 65_536) }]);
    }

    #[test]
    fn a_bad_line_of_somebody_else_leaves_the_others_good() {
        let subids = parse_subids("dev:oops:1\nkubelet:65536:65536\nkubelet:7:0\nkubelet\n");
        assert_eq!(subids.of("kubelet").count(), 1);
        assert_eq!(subids.problems_of("dev").map(|p| p.line).collect::<Vec<_>>(), [1]);
        assert_eq!(subids.problems_of("kubelet").map(|p| p.line).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn only_three_fields_with_an_owner_make_a_line() {
        for text in ["kubelet", "kubelet:65536", "kubelet:65536:65536:", "a:1:2:3"] {
            assert_eq!(cause_of(text), SubidCause::NotThreeFields);
        }
        assert_eq!(cause_of(":65536:65536"), SubidCause::EmptyOwner);
    }

    /// shadow 4.13 reads `0100000` as 32768, `0x10` as 16 and `-5` as 2^64-5.
    #[test]
    fn a_number_that_shadow_may_read_otherwise_is_refused() {
        for bad in
            ["", "+1", "-5", " 1", "1 ", "0x10", "0100000", "00", "1e5", "\u{661}", "18446744073709551616"]
        {
            let number = |field| SubidCause::BadNumber { field, text: bad.to_owned() };
            assert_eq!(cause_of(&format!("kubelet:{bad}:65536")), number("first"));
            assert_eq!(cause_of(&format!("kubelet:65536:{bad}")), number("count"));
        }
        assert_eq!(cause_of("a:1:2\r"), SubidCause::BadNumber { field: "count", text: "2\r".into() });
    }

    #[test]
    fn a_range_up_to_the_last_id_is_good_and_one_more_is_not() {
        assert_eq!(parse_subids("a:65536:4294901759").entries.len(), 1);
        let cause = SubidCause::PastTheEnd { first: 65_536, count: 4_294_901_760 };
        assert_eq!(cause_of("a:65536:4294901760"), cause);
        let most = u64::MAX;
        assert_eq!(
            cause_of(&format!("a:{most}:{most}")),
            SubidCause::PastTheEnd { first: most, count: most }
        );
    }

    #[test]
    fn a_problem_names_line_text_and_cause_and_its_hint_the_fix() {
        let subids = parse_subids("\nkubelet:4294901760:131072\na:5000000000:1\nb:4294967295:1\nc:5:0");
        let [long, high, none, empty] = subids.problems.as_slice() else { panic!("{subids:?}") };
        assert_eq!(
            long.to_string(),
            r#"line 2 "kubelet:4294901760:131072": 131072 IDs from 4294901760 pass 4294967294, the last ID there is"#
        );
        assert_eq!(long.hint(), "the largest count that fits from 4294901760 is 65535");
        assert_eq!(high.hint(), "start at 4294967294 or lower");
        assert_eq!(none.hint(), "start at 4294967294 or lower");
        assert_eq!(empty.cause, SubidCause::Empty);
    }

    #[test]
    fn what_getsubids_prints_is_read() {
        assert_eq!(parse_getsubids("0: kubelet 65536 7208960\n"), Ok(vec![ids(65_536, 7_208_960)]));
        let two = "0: kubelet 65536 65536\n1: kubelet 200000 10\n";
        assert_eq!(parse_getsubids(two), Ok(vec![ids(65_536, 65_536), ids(200_000, 10)]));
        assert_eq!(parse_getsubids("\n"), Ok(vec![]));
    }

    /// The kubelet adds the two in 32 bits, so that such a range hands out host ID 0.
    #[test]
    fn a_printed_range_that_would_wrap_around_is_refused() {
        let e = parse_getsubids("0: kubelet 65536 65536\n1: kubelet 4294901760 131072\n").unwrap_err();
        assert_eq!((e.line, e.cause), (2, SubidCause::PastTheEnd { first: 4_294_901_760, count: 131_072 }));
    }

    #[test]
    fn any_bad_printed_line_is_an_error() {
        let cause = |text| parse_getsubids(text).unwrap_err().cause;
        assert_eq!(cause("0: kubelet 65536"), SubidCause::NotFourFields);
        assert_eq!(cause("0: kube let 65536 65536"), SubidCause::NotFourFields);
        assert_eq!(cause("0: kubelet 65536 0"), SubidCause::Empty);
        assert!(matches!(cause("0 kubelet 1 1"), SubidCause::BadNumber { field: "index", .. }));
        assert!(matches!(cause("Error fetching ranges now"), SubidCause::BadNumber { field: "index", .. }));
        assert!(matches!(cause("0: kubelet 0x10 1"), SubidCause::BadNumber { field: "first", .. }));
    }

    fn any_span() -> impl Strategy<Value = HostSpan> {
        (0..ID_COUNT, 1..=ID_COUNT).prop_map(|(first, count)| ids(first, count.min(ID_COUNT - first)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(crate::cases()))]

        #[test]
        fn good_lines_are_read_back(lines in vec(("[a-z0-9_]{1,8}", any_span()), 0..6)) {
            let text: String =
                lines.iter().map(|(o, s)| format!("{o}:{}:{}\n", s.first(), s.length())).collect();
            let subids = parse_subids(&text);
            prop_assert!(subids.problems.is_empty());
            let read: Vec<_> = subids.entries.into_iter().map(|e| (e.owner, e.ids)).collect();
            prop_assert_eq!(read, lines);
        }

        #[test]
        fn printed_ranges_are_read_back(spans in vec(any_span(), 0..6)) {
            let text: String = spans.iter().enumerate()
                .map(|(i, s)| format!("{i}: kubelet {} {}\n", s.first(), s.length())).collect();
            prop_assert_eq!(parse_getsubids(&text), Ok(spans));
        }

        #[test]
        fn a_line_is_good_just_when_its_ids_exist(first in 0u64..1 << 33, count in 0u64..1 << 33) {
            let good = count > 0 && first + count <= ID_COUNT;
            prop_assert_eq!(parse_subids(&format!("a:{first}:{count}")).problems.is_empty(), good);
        }

        #[test]
        fn the_hinted_count_fits_and_one_more_does_not(first in 0u64..ID_COUNT) {
            let hint = parse_subids(&format!("a:{first}:{}", 1u64 << 32)).problems[0].hint();
            let fits: u64 = hint.rsplit(' ').next().unwrap().parse().unwrap();
            prop_assert_eq!(parse_subids(&format!("a:{first}:{fits}")).entries.len(), 1);
            prop_assert_eq!(parse_subids(&format!("a:{first}:{}", fits + 1)).entries.len(), 0);
        }

        #[test]
        fn every_line_of_any_text_is_an_entry_or_a_problem_or_nothing(text in "(?s).{0,60}|([a#:0-9 ]{0,24}\n?){0,4}") {
            let subids = parse_subids(&text);
            let said = text.split('\n').filter(|l| !l.trim_ascii().is_empty() && !l.starts_with('#'));
            prop_assert_eq!(subids.entries.len() + subids.problems.len(), said.count());
            for problem in &subids.problems {
                prop_assert!(!problem.hint().is_empty() && !problem.to_string().contains('\n'));
            }
            let _ = parse_getsubids(&text);
        }
    }
}
