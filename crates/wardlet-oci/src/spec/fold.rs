//! Compares keys as the runtimes' parsers do, without regard to case.

/// The case-folded key: the same for all keys that these parsers take as equal.
pub(super) fn folded(key: &str) -> String {
    let fold = |c: char| match c {
        // The two letters outside of ASCII that fold to an ASCII letter.
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other,
    };
    key.chars().map(fold).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_of_a_letter_are_the_same_letter() {
        assert_eq!(folded("LinuX"), "linux");
        assert_eq!(folded("annotation\u{17f}"), "annotations");
        assert_eq!(folded("\u{212a}ind"), "kind");
        assert_ne!(folded("linux "), "linux");
    }
}
