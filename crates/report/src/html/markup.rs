use ring::digest::{SHA256, digest};

/// How many bytes of a hash tell two contents of one element apart.
const STAMP_BYTES: usize = 9;

/// A page as it is written. Tags and attribute names are ours, known when this is compiled; whatever comes
/// from an object is text or an attribute's value and goes in escaped. There is no other way in.
#[derive(Debug, Default)]
pub(super) struct Markup(String);

/// An attribute with its value.
pub(super) type Attribute<'a> = (&'static str, &'a str);

impl Markup {
    /// Markup of our own.
    pub(super) fn raw(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    /// Text from anywhere.
    pub(super) fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c if is_harmless(c) => self.0.push(c),
                _ => self.0.push(char::REPLACEMENT_CHARACTER),
            }
        }
    }

    /// Opens an element.
    pub(super) fn open(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) {
        self.raw("<");
        self.raw(tag);
        for (name, value) in attributes {
            self.raw(" ");
            self.raw(name);
            self.raw("=\"");
            self.text(value);
            self.raw("\"");
        }
        self.raw(">");
    }

    /// Closes an element.
    pub(super) fn close(&mut self, tag: &'static str) {
        self.raw("</");
        self.raw(tag);
        self.raw(">");
    }

    /// An element with nothing but text in it.
    pub(super) fn element(&mut self, tag: &'static str, attributes: &[Attribute<'_>], text: &str) {
        self.open(tag, attributes);
        self.text(text);
        self.close(tag);
    }

    /// An element with others in it.
    pub(super) fn within(
        &mut self,
        tag: &'static str,
        attributes: &[Attribute<'_>],
        inside: impl FnOnce(&mut Self),
    ) {
        self.open(tag, attributes);
        inside(self);
        self.close(tag);
    }

    /// An element that the script replaces when its content is another: it has a stamp of its content.
    pub(super) fn part(
        &mut self,
        tag: &'static str,
        attributes: &[Attribute<'_>],
        inside: impl FnOnce(&mut Self),
    ) {
        let mut content = Self::default();
        inside(&mut content);
        let stamp = stamp(content.0.as_bytes());
        let stamped: Vec<Attribute<'_>> =
            attributes.iter().copied().chain([("data-part", ""), ("data-stamp", stamp.as_str())]).collect();
        self.within(tag, &stamped, |page| page.0.push_str(&content.0));
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// A short text that is another for other content.
pub(super) fn stamp(content: &[u8]) -> String {
    let hash = digest(&SHA256, content);
    let short = hash.as_ref().get(..STAMP_BYTES).unwrap_or_default();
    short.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Control characters are not allowed in a page, and those that turn the direction of text could make a
/// name look like another.
fn is_harmless(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let control = c.is_control() && !matches!(c, '\n' | '\t');
    !turns && !control
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let mut page = Markup::default();
        page.element("p", &[("title", "\" onclick=\"x")], "<script>alert('1')</script>&amp;");
        assert_eq!(
            page.into_string(),
            "<p title=\"&quot; onclick=&quot;x\">&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;amp;</p>"
        );
    }

    #[test]
    fn text_cannot_turn_its_direction_or_end_the_page() {
        let mut page = Markup::default();
        page.text("a\u{202e}b\0c\nd");
        assert_eq!(page.into_string(), "a\u{fffd}b\u{fffd}c\nd");
    }

    #[test]
    fn a_part_has_another_stamp_when_its_content_is_another() {
        let part = |text: &str| {
            let mut page = Markup::default();
            page.part("p", &[("id", "x")], |page| page.text(text));
            page.into_string()
        };
        let [a, b] = ["a", "b"].map(part);
        assert!(a.starts_with("<p id=\"x\" data-part=\"\" data-stamp=\""), "{a}");
        assert!(a.ends_with("\">a</p>"), "{a}");
        assert_ne!(a.replace(">a<", ">b<"), b);
        assert_eq!(part("a"), a);
    }
}
