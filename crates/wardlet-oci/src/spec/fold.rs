//! Keys as the runtimes' parsers compare them.

/// The key in the one form that all keys have which these parsers take for the same.
pub(super) fn folded(key: &str) -> String {
    let fold = |c: char| match c {
        // The two letters outside of ASCII that have an ASCII letter for a sibling.
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
