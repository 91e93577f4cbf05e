//! Rows that open: of a list that is longer than a browser can show with all that is in it.

use super::markup::{Attribute, Markup, stamp};

/// What filters search of one row is at most this long. Rows of a volume with a thousand users would be longer than the page.
const LONGEST_WORDS: usize = 4096;

/// A row of a list.
pub(super) struct Row<'a> {
    /// Its class.
    pub(super) class: &'static str,
    /// What it is, for filters and counts.
    pub(super) item: &'static str,
    /// What it is of: the same row has the same key in the next state of the page.
    pub(super) key: String,
    /// What filters go by: attributes whose names begin with `data-`.
    pub(super) filters: &'a [Attribute<'a>],
    /// What a search looks through.
    pub(super) words: &'a [&'a str],
    /// The same content has the same state.
    pub(super) state: &'a [u8],
}

/// Where a row is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) place: usize,
    /// So many of the first rows have their content in the page; the others fetch it when they are opened.
    pub(super) filled: usize,
    /// Where the content of this kind of row is fetched from, without the key.
    pub(super) address: &'static str,
}

impl Row<'_> {
    /// Writes the row: what is always shown, and what it opens to.
    pub(super) fn write(
        &self,
        page: &mut Markup,
        at: Position,
        summary: impl FnOnce(&mut Markup),
        content: impl FnOnce(&mut Markup),
    ) {
        let words = words(self.words);
        let stamp = stamp(self.state);
        let mut attributes: Vec<Attribute<'_>> = vec![
            ("class", self.class),
            ("data-item", self.item),
            ("data-key", self.key.as_str()),
            ("data-stamp", stamp.as_str()),
            ("data-words", words.as_str()),
        ];
        attributes.extend_from_slice(self.filters);
        page.within("details", &attributes, |page| {
            page.within("summary", &[], summary);
            if at.place < at.filled {
                page.within("div", &[("class", "body")], content);
            } else {
                let address = format!("{}?key={}", at.address, self.key);
                page.element("div", &[("class", "body"), ("data-load", &address)], "");
            }
        });
    }
}

/// The key of what has this name.
pub(crate) fn key(name: &str) -> String {
    stamp(name.as_bytes())
}

/// Each word once, in lower case.
fn words(all: &[&str]) -> String {
    let mut text = String::new();
    let mut known = std::collections::BTreeSet::new();
    for word in all.iter().filter(|word| !word.is_empty()) {
        if text.len() + word.len() >= LONGEST_WORDS {
            break;
        }
        if known.insert(*word) {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&word.to_lowercase());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(filled: usize, place: usize) -> String {
        let filters = [("data-namespace", "shop")];
        let row = Row {
            class: "opens",
            item: "conflict",
            key: key("a"),
            filters: &filters,
            words: &["Web", "Web", "", "db"],
            state: b"1",
        };
        let mut page = Markup::default();
        let at = Position { place, filled, address: "card" };
        row.write(&mut page, at, |page| page.text("summary"), |page| page.text("content"));
        page.into_string()
    }

    #[test]
    fn the_first_rows_have_their_content_and_the_others_know_where_it_is() {
        let inline = written(1, 0);
        assert!(inline.contains("<div class=\"body\">content</div>"), "{inline}");
        let fetched = written(1, 1);
        assert!(fetched.contains(&format!("data-load=\"card?key={}\"></div>", key("a"))), "{fetched}");
        assert!(!fetched.contains("content<"), "{fetched}");
    }

    #[test]
    fn words_are_searched_in_lower_case_each_once() {
        assert!(written(1, 0).contains(" data-words=\"web db\""));
        let long = "x".repeat(LONGEST_WORDS);
        assert_eq!(words(&["a", &long, "b"]), "a");
    }
}
