//! What the page can be narrowed to. It does nothing without the script, which shows it.

use std::collections::BTreeSet;

use check::ObjectRef;

use super::markup::Markup;
use super::words::Word;

/// A choice of one value of an attribute of the page's items, `data-ID`. An item without the attribute is always shown.
pub(super) struct Choice<'a> {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    /// Each value with its text.
    pub(super) options: Vec<(&'a str, &'a str)>,
}

impl<'a> Choice<'a> {
    /// A choice among the namespaces of these objects.
    pub(super) fn of_namespaces(objects: impl Iterator<Item = &'a ObjectRef>) -> Self {
        Self::of_names("namespace", "Namespace", objects.map(|object| object.namespace.as_str()))
    }

    /// A choice among names, each of which is its own text.
    pub(super) fn of_names(
        id: &'static str,
        name: &'static str,
        names: impl Iterator<Item = &'a str>,
    ) -> Self {
        let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
        Self { id, name, options: names.into_iter().map(|name| (name, name)).collect() }
    }

    /// A choice among words of the page.
    pub(super) fn of_words(
        id: &'static str,
        name: &'static str,
        words: impl IntoIterator<Item = Word>,
    ) -> Self {
        Self { id, name, options: words.into_iter().map(|word| (word.class, word.text)).collect() }
    }
}

pub(super) fn bar(page: &mut Markup, choices: &[Choice<'_>]) {
    page.within("form", &[("id", "filters"), ("role", "search"), ("aria-label", "Filters"), ("hidden", "")], |page| {
        page.within("label", &[("class", "wide")], |page| {
            page.element("span", &[], "Search");
            page.raw("<input id=\"text\" type=\"search\" placeholder=\"name, field, label …\" autocomplete=\"off\" spellcheck=\"false\">");
        });
        for choice in choices {
            page.within("label", &[], |page| {
                page.element("span", &[], choice.name);
                page.within("select", &[("id", choice.id), ("data-filter", choice.id)], |page| {
                    page.element("option", &[("value", "")], "all");
                    for (value, text) in &choice.options {
                        page.element("option", &[("value", value)], text);
                    }
                });
            });
        }
        page.raw("<button type=\"reset\">Clear</button>");
    });
}
