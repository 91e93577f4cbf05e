use std::str::FromStr;

/// What `/proc/PID/stat` says of a process or thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its state: `R`, `S`, `D`, `Z` and others of proc(5).
    pub state: char,
    /// Its parent's process ID.
    pub parent: u32,
    /// When it was started, in clock ticks since boot.
    pub start_time: u64,
}

impl Stat {
    /// From the file's content.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        Some(Self { state: field(text, 3)?, parent: field(text, 4)?, start_time: field(text, 22)? })
    }

    /// Whether it has ended, waited for or not.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// A field of `/proc/PID/stat` by its number in proc(5), from 3 on.
///
/// Field 2 is the name, which the process chooses: it may hold spaces and brackets, so that fields are counted behind the
/// last closing bracket.
#[must_use]
pub fn field<T: FromStr>(stat: &[u8], number: usize) -> Option<T> {
    let behind = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(behind + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_name() {
        let fields: Vec<String> = (5..=22).map(|number| (number * 100).to_string()).collect();
        for name in ["sh", "a b", "a) R 1 (b", ")", "", "\u{fffd}"] {
            let text = format!("17 ({name}) S 4 {}\n", fields.join(" "));
            let expected = Stat { state: 'S', parent: 4, start_time: 2200 };
            assert_eq!(Stat::parse(text.as_bytes()), Some(expected), "{name}");
        }
        let text = b"17 (\xff\xfe) Z 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 4242 23";
        assert!(Stat::parse(text).unwrap().has_ended());
    }

    #[test]
    fn what_is_missing_is_not_guessed() {
        for text in [
            "",
            "17",
            "17 (sh",
            "17 (sh) S",
            "17 (sh) S 4 5",
            "17 (sh) S x 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22",
        ] {
            assert_eq!(Stat::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(field::<u32>(b"17 (sh) 1 2 3", 2), None);
    }
}
