//! `/proc/PID/uid_map` and `gid_map`: lines of `inside outside length`.
//!
//! The kernel prints `outside` as the *reader's* user namespace knows it. Only for a reader in the
//! initial user namespace are these host IDs.

use super::decimal;
use crate::id::ID_COUNT;
use crate::mapping::{IdMapping, MappingError};

/// Why a text is no map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcMapError {
    /// A line is not three decimal numbers.
    #[error("line {line} {text:?}: expected three numbers, inside, outside and length")]
    NotThreeNumbers {
        /// The line, from 1.
        line: usize,
        /// What it says.
        text: String,
    },
    /// The IDs outside do not exist in the reader's user namespace, so that the host IDs are unknown.
    #[error("line {line}: the IDs outside are not visible from the user namespace of the reader")]
    NotVisible {
        /// The line, from 1.
        line: usize,
    },
    /// The numbers are no runs of IDs.
    #[error("line {line} {text:?}: {cause}")]
    Impossible {
        /// The line, from 1.
        line: usize,
        /// What it says.
        text: String,
        /// What is wrong with the numbers.
        cause: MappingError,
    },
}

/// The lines of a map in the order of the kernel. No text is no line: a map not written yet.
pub fn parse_proc_map(text: &str) -> Result<Vec<IdMapping>, ProcMapError> {
    text.lines().zip(1..).map(|(text, line)| parse_line(line, text)).collect()
}

fn parse_line(line: usize, text: &str) -> Result<IdMapping, ProcMapError> {
    let Some([inside, outside, length]) = three_numbers(text) else {
        return Err(ProcMapError::NotThreeNumbers { line, text: text.to_owned() });
    };
    if outside == ID_COUNT {
        return Err(ProcMapError::NotVisible { line });
    }
    IdMapping::new(inside, outside, length).map_err(|cause| ProcMapError::Impossible {
        line,
        text: text.to_owned(),
        cause,
    })
}

fn three_numbers(text: &str) -> Option<[u64; 3]> {
    let mut fields = text.split_ascii_whitespace();
    let numbers = [decimal(fields.next()?)?, decimal(fields.next()?)?, decimal(fields.next()?)?];
    fields.next().is_none().then_some(numbers)
}

/// The text that the kernel takes when it is written to a map, and prints back with more blanks.
#[must_use]
pub fn to_proc_map(lines: &[IdMapping]) -> String {
    lines.iter().map(|m| format!("{} {} {}\n", m.container(), m.host().first(), m.length())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn line(inside: u64, outside: u64, length: u64) -> IdMapping {
        IdMapping::new(inside, outside, length).unwrap()
    }

    #[test]
    fn the_identity_map_of_the_host_is_read() {
        let text = "         0          0 4294967295\n";
        assert_eq!(parse_proc_map(text), Ok(vec![line(0, 0, 4_294_967_295)]));
    }

    #[test]
    fn lines_keep_the_order_of_the_kernel() {
        let text = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(parse_proc_map(text), Ok(vec![line(0, 1000, 1), line(1, 100_000, 65_536)]));
    }

    #[test]
    fn a_map_not_written_yet_has_no_lines() {
        assert_eq!(parse_proc_map(""), Ok(vec![]));
        assert_eq!(to_proc_map(&[]), "");
    }

    #[test]
    fn ids_that_the_reader_cannot_see_are_never_taken_for_host_ids() {
        let text = "0 65536 1000\n         1000 4294967295      65536\n";
        assert_eq!(parse_proc_map(text), Err(ProcMapError::NotVisible { line: 2 }));
    }

    #[test]
    fn a_line_that_is_not_three_plain_numbers_is_named() {
        for bad in ["", "0 0", "0 0 1 1", "0 -1 1", "+0 0 1", "0 0x10 1", "0 010 1", "a b c", "0 0 1.0"] {
            let text = format!("0 65536 65536\n{bad}\n");
            let expected = ProcMapError::NotThreeNumbers { line: 2, text: bad.to_owned() };
            assert_eq!(parse_proc_map(&text), Err(expected), "{bad:?}");
        }
    }

    #[test]
    fn runs_of_no_ids_or_past_the_last_id_are_impossible() {
        for bad in ["0 65536 0", "0 4294901760 65536", "4294967295 0 1", "0 0 4294967296"] {
            assert!(matches!(parse_proc_map(bad), Err(ProcMapError::Impossible { line: 1, .. })), "{bad}");
        }
    }

    #[test]
    fn an_error_is_one_line_with_the_place_and_the_cause() {
        let e = parse_proc_map("0 65536 0\n").unwrap_err();
        assert_eq!(e.to_string(), r#"line 1 "0 65536 0": container side: a range of 0 IDs starting at 0"#);
    }

    #[test]
    fn the_map_of_this_process_is_read() {
        let text = std::fs::read_to_string("/proc/self/uid_map").unwrap();
        assert!(!parse_proc_map(&text).unwrap().is_empty());
    }

    fn any_mapping() -> impl Strategy<Value = IdMapping> {
        let id = 0..u64::from(u32::MAX);
        (id.clone(), id.clone(), 1..=u64::from(u32::MAX)).prop_map(|(inside, outside, length)| {
            line(inside, outside, length.min(ID_COUNT - inside.max(outside)))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(crate::cases()))]

        #[test]
        fn what_is_printed_is_read_back(map in vec(any_mapping(), 0..8)) {
            prop_assert_eq!(parse_proc_map(&to_proc_map(&map)), Ok(map));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(?s).{0,40}|([0-9 ]{0,24}\n?){0,4}") {
            if let Ok(map) = parse_proc_map(&text) {
                prop_assert_eq!(parse_proc_map(&to_proc_map(&map)), Ok(map));
            }
        }
    }
}
