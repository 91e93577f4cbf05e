//! Answers as lines that can be compared: every key with its value, free text left out.

use serde_json::Value;

use crate::mask::Mask;

/// Which values of a document count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// All but free text.
    Compared,
    /// All but free text and numbers: in records these are processes, times and blocks.
    WithoutNumbers,
}

/// One line for each value of a JSON document: its path, without the indices of lists, and the value.
pub(crate) fn json(document: &Value, values: Values, mask: &Mask) -> Vec<String> {
    let mut lines = Vec::new();
    flatten(document, &mut String::new(), &mut lines, &|value| match values {
        Values::Compared => shown(value, mask),
        Values::WithoutNumbers if value.is_number() => "number".to_owned(),
        Values::WithoutNumbers => shown(value, mask),
    });
    lines
}

fn flatten(value: &Value, path: &mut String, lines: &mut Vec<String>, show: &dyn Fn(&Value) -> String) {
    let length = path.len();
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                path.push('.');
                path.push_str(key);
                flatten(value, path, lines, show);
                path.truncate(length);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            path.push_str("[]");
            for value in list {
                flatten(value, path, lines, show);
            }
            path.truncate(length);
        }
        value => lines.push(format!("{path} = {}", show(value))),
    }
}

fn shown(value: &Value, mask: &Mask) -> String {
    match value {
        Value::String(text) => word(text, mask),
        other => other.to_string(),
    }
}

/// A value of an enum, a name or a path has no space in it; a text for people has.
fn word(text: &str, mask: &Mask) -> String {
    if text.contains(char::is_whitespace) { "text".to_owned() } else { format!("{:?}", mask.apply(text)) }
}

/// One line for each tag of an XML document, with its attributes; what stands between tags is free text.
pub(crate) fn xml(document: &str, mask: &Mask) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = document;
    while let Some(start) = rest.find('<') {
        let tag = &rest[start + 1..];
        let mut quoted = false;
        let end = tag.find(|c| {
            quoted ^= c == '"';
            c == '>' && !quoted
        });
        let end = end.unwrap_or(tag.len());
        lines.push(attributes(&tag[..end], mask));
        rest = tag.get(end + 1..).unwrap_or_default();
    }
    lines
}

fn attributes(tag: &str, mask: &Mask) -> String {
    let mut parts = tag.split('"');
    let mut line = format!("<{}", parts.next().unwrap_or_default());
    // Values and what stands between them take turns.
    while let (Some(value), Some(between)) = (parts.next(), parts.next()) {
        line.push_str(&word(value, mask));
        line.push_str(between);
    }
    line
}

/// The lines of a YAML file without comments; the value of a line that is free text is left out.
pub(crate) fn yaml(document: &str, mask: &Mask) -> Vec<String> {
    let lines = document.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines
        .map(|line| match line.split_once(": ") {
            Some((key, value)) if value.contains(' ') && !value.starts_with(['{', '[']) => {
                format!("{key}: text")
            }
            _ => mask.apply(line),
        })
        .collect()
}

/// The lines of blocks whose order is chance: blocks are sorted, the order inside a block counts.
pub(crate) fn sorted(mut blocks: Vec<Vec<String>>) -> Vec<String> {
    blocks.sort();
    blocks.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_its_keys_and_values_without_free_text() {
        let document =
            json!({"pods": [{"verdict": "runs", "why": "ext4 can be idmapped", "n": 2, "none": []}]});
        let lines = json(&document, Values::Compared, &Mask::default());
        let wanted =
            [r#".pods[].verdict = "runs""#, ".pods[].why = text", ".pods[].n = 2", ".pods[].none = []"];
        let in_order = |lines: Vec<String>| sorted(lines.into_iter().map(|line| vec![line]).collect());
        assert_eq!(in_order(lines), in_order(wanted.map(str::to_owned).to_vec()));
        let lines = json(&document, Values::WithoutNumbers, &Mask::default());
        assert!(lines.contains(&".pods[].n = number".to_owned()), "{lines:?}");
    }

    #[test]
    fn a_tag_is_its_name_and_attributes_without_free_text() {
        let lines = xml("<a n=\"1\" why=\"a > b\"><b/>words</a>", &Mask::default());
        assert_eq!(lines, ["<a n=\"1\" why=text", "<b/", "</a"]);
    }

    #[test]
    fn a_patch_is_its_lines_without_comments() {
        let lines = yaml("# why\nspec:\n  hostUsers: false\n  note: two words\n", &Mask::default());
        assert_eq!(lines, ["spec:", "  hostUsers: false", "  note: text"]);
    }
}
