use check::{Apply, Patch};

use super::markup::Markup;
use super::words;

/// A patch as YAML, with what it costs and a button that copies it.
pub(super) fn patch(page: &mut Markup, patch: &Patch) {
    page.within("div", &[("class", "patch")], |page| {
        page.within("p", &[], |page| {
            page.text("Patch for ");
            page.element("strong", &[], &words::object_name(&patch.target.object));
            page.text(match patch.apply {
                Apply::Patch => "",
                Apply::Recreate => {
                    ": the API does not let this change, so change the manifest and make it anew"
                }
                Apply::AtItsSource => ": change it where it is made, it was not among the objects",
            });
        });
        gives_up(page, &patch.gives_up);
        code(page, &yaml(patch));
        if let Some(command) = &patch.command {
            code(page, command);
        }
    });
}

pub(super) fn gives_up(page: &mut Markup, what: &[String]) {
    for what in what {
        page.within("p", &[("class", "cost")], |page| {
            page.element("span", &[("class", "tag risky")], "gives up");
            page.text(what);
        });
    }
}

/// Text to copy. It can take the focus, so that it can be scrolled with keys.
fn code(page: &mut Markup, text: &str) {
    page.within("div", &[("class", "code")], |page| {
        page.within("pre", &[("tabindex", "0")], |page| page.element("code", &[], text));
        page.element("button", &[("type", "button"), ("data-copy", "")], "Copy");
    });
}

/// JSON is YAML: what cannot be written as one is shown as the other.
fn yaml(patch: &Patch) -> String {
    serde_saphyr::to_string(&patch.body).unwrap_or_else(|_| patch.body.to_string())
}
