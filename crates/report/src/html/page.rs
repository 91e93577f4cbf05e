//! The document around the content of a page: policy, style, scripts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

use super::markup::{Attribute, Markup};

pub(super) const STYLE: &str = include_str!("style.css");
/// Filters, and buttons that copy.
pub(super) const SCRIPT: &str = include_str!("script.js");
/// Updates of a page that a server serves, and content that is fetched when a row opens.
pub(super) const LIVE: &str = include_str!("live.js");

/// Whether a page is a file by itself, or served by a process that it asks for updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    File,
    Server,
}

impl Source {
    fn scripts(self) -> &'static [&'static str] {
        match self {
            Self::File => &[SCRIPT],
            Self::Server => &[SCRIPT, LIVE],
        }
    }
}

/// What stands above the content.
pub(super) struct Head<'a> {
    pub(super) title: &'a str,
    pub(super) source: Source,
    /// Attributes of the body, which the scripts read.
    pub(super) body: &'a [Attribute<'a>],
}

/// The whole document.
pub(super) fn document(head: &Head<'_>, content: impl FnOnce(&mut Markup)) -> String {
    let mut page = Markup::default();
    page.raw("<!doctype html>\n");
    page.within("html", &[("lang", "en")], |page| {
        page.within("head", &[], |page| self::head(page, head));
        page.within("body", head.body, |page| {
            content(page);
            for script in head.source.scripts() {
                page.raw("<script>");
                page.raw(script);
                page.raw("</script>");
            }
        });
    });
    page.raw("\n");
    page.into_string()
}

fn head(page: &mut Markup, head: &Head<'_>) {
    page.raw("<meta charset=\"utf-8\">");
    page.open("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy(head.source))]);
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\">");
    page.raw("<meta name=\"referrer\" content=\"no-referrer\">");
    page.element("title", &[], head.title);
    page.raw("<style>");
    page.raw(STYLE);
    page.raw("</style>");
}

/// The browser runs our scripts and no others, and loads nothing but what our scripts fetch from the server of the page: a
/// name that got through as markup would still do nothing.
pub(super) fn policy(source: Source) -> String {
    let scripts: Vec<String> = source.scripts().iter().map(|text| hashed(text)).collect();
    let connections = match source {
        Source::File => "",
        Source::Server => "connect-src 'self'; ",
    };
    format!(
        "default-src 'none'; script-src {}; style-src {}; {connections}base-uri 'none'; form-action 'none'",
        scripts.join(" "),
        hashed(STYLE)
    )
}

fn hashed(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_our_style_or_scripts_needs_another_host_or_ends_its_element() {
        for text in [STYLE, SCRIPT, LIVE] {
            assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("url("));
            assert!(!text.contains("</"));
        }
    }

    #[test]
    fn a_file_may_connect_nowhere_and_a_served_page_to_its_server_alone() {
        assert!(!policy(Source::File).contains("connect-src"));
        assert!(policy(Source::Server).contains("; connect-src 'self'; "));
        for source in [Source::File, Source::Server] {
            let policy = policy(source);
            assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
            assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
            assert_eq!(policy.matches("'sha256-").count(), source.scripts().len() + 1);
        }
    }

    #[test]
    fn a_title_is_text() {
        let head = Head { title: "</title><script>", source: Source::File, body: &[] };
        let page = document(&head, |_| {});
        assert!(page.contains("<title>&lt;/title&gt;&lt;script&gt;</title>"), "{page}");
        assert_eq!(page.matches("<script>").count(), 1);
    }
}
