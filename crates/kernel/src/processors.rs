use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::{fs, io};

/// The processors that this machine can ever have, as the kernel lists them: `0-3,8`.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// The highest number that a kernel can be built for.
const HIGHEST: u32 = 8191;

/// The numbers of all processors that this machine can ever have, online or not. Read once.
///
/// A caller uses them to confine containers. Where the kernel's list cannot be read the answer is therefore every
/// number that a processor can have, which confines too much rather than too little.
#[must_use]
pub fn possible_cpus() -> &'static [u32] {
    static NUMBERS: OnceLock<Vec<u32>> = OnceLock::new();
    NUMBERS.get_or_init(|| numbers_or_all(fs::read_to_string(POSSIBLE)))
}

fn numbers_or_all(list: io::Result<String>) -> Vec<u32> {
    let numbers = list.ok().and_then(|list| numbers(list.trim()));
    numbers.unwrap_or_else(|| (0..=HIGHEST).collect())
}

/// The numbers of a list such as `0-3,8`; `None` if it is not such a list.
fn numbers(list: &str) -> Option<Vec<u32>> {
    let ranges: Option<Vec<_>> = list.split(',').map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last <= HIGHEST).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_processors_is_read_as_the_kernel_writes_it() {
        assert_eq!(numbers_or_all(Ok("0-3,8\n".into())), [0, 1, 2, 3, 8]);
        assert_eq!(numbers_or_all(Ok("0\n".into())), [0]);
    }

    #[test]
    fn a_list_that_cannot_be_read_stands_for_every_processor() {
        let missing = || Err(io::ErrorKind::NotFound.into());
        for list in [Ok(""), Ok("0-"), Ok("3-1"), Ok("0-4294967295"), Ok("0-3;8"), missing()] {
            assert_eq!(numbers_or_all(list.map(str::to_owned)).len(), 8192);
        }
    }

    #[test]
    fn this_machine_has_a_first_processor() {
        assert_eq!(possible_cpus().first(), Some(&0));
    }
}
