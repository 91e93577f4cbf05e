//! JSON as Go writes it: what a kubelet hashes and writes into annotations has to have the same bytes.

use serde::Serialize;

/// The value with the characters escaped that Go escapes and serde does not. They can only be inside of strings.
pub(crate) fn text(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_html_is_escaped() {
        assert_eq!(text(&"a<b>&\u{2028}\"\n\u{1}ä"), "\"a\\u003cb\\u003e\\u0026\\u2028\\\"\\n\\u0001ä\"");
    }
}
