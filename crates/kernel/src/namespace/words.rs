use std::ops::Range;
use std::ptr;

/// Where the arguments and the environment of this process are in memory: a fork of it has them too, and every process
/// that can see it could read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    arguments: Range<usize>,
    environment: Range<usize>,
}

impl Words {
    /// Those of the calling process.
    pub(super) fn own() -> Option<Self> {
        Self::parse(&std::fs::read("/proc/self/stat").ok()?)
    }

    fn parse(stat: &[u8]) -> Option<Self> {
        let address = |number| procfs::field::<usize>(stat, number);
        let words = Self { arguments: address(48)?..address(49)?, environment: address(50)?..address(51)? };
        let sound = |range: &Range<usize>| range.start != 0 && range.start <= range.end;
        (sound(&words.arguments) && sound(&words.environment)).then_some(words)
    }

    /// Puts `name` in their place.
    ///
    /// # Safety
    /// The calling process is a copy of the one that `self` was found in, has one thread, and never looks at
    /// its arguments and its environment again.
    pub(super) unsafe fn replace(&self, name: &'static [u8]) {
        for range in [&self.arguments, &self.environment] {
            let place = ptr::with_exposed_provenance_mut::<u8>(range.start);
            // SAFETY: the kernel says that this range is in the process's own stack, and the caller that no other
            // reference to it exists.
            unsafe { ptr::write_bytes(place, 0, range.len()) };
        }
        let place = ptr::with_exposed_provenance_mut::<u8>(self.arguments.start);
        let length = name.len().min(self.arguments.len().saturating_sub(1));
        // SAFETY: as above; it is not longer than the range.
        unsafe { ptr::copy_nonoverlapping(name.as_ptr(), place, length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_where_the_kernel_says_whatever_the_process_is_called() {
        let mut fields: Vec<String> = (3..=52).map(|number| number.to_string()).collect();
        fields[48 - 3] = "100".into();
        fields[49 - 3] = "150".into();
        fields[50 - 3] = "150".into();
        fields[51 - 3] = "190".into();
        let stat = format!("1 (a) b 1 2) {}", fields.join(" "));
        let words = Words::parse(stat.as_bytes()).unwrap();
        assert_eq!((words.arguments, words.environment), (100..150, 150..190));
    }

    #[test]
    fn what_is_not_told_is_not_guessed() {
        assert_eq!(Words::parse(b"1 (a) R 0"), None);
        let hidden = format!("1 (a) {}", vec!["0"; 50].join(" "));
        assert_eq!(Words::parse(hidden.as_bytes()), None);
        assert!(Words::own().is_some());
    }
}
