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

    pub(super) fn into_string(self) -> String {
        self.0
    }
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
}
