//! Slips of the pen at every field of a pod.

use manifest::Schema;
use manifest::k8s_openapi::api::core::v1::Pod;

use super::{Case, Verdict};

/// Every field of a pod that somebody writes, with its type's name: `spec.containers[].image`.
pub fn pod_fields() -> Vec<(String, String)> {
    let schema = Schema::of::<Pod>().unwrap();
    let is_written = |path: &str| {
        let is_item = path.ends_with("[]") || path.ends_with('*');
        (path.starts_with("spec.") || path.starts_with("metadata."))
            && !is_item
            && !path.contains("managedFields.")
    };
    let fields = schema.fields().iter().filter(|f| is_written(&f.path));
    fields.map(|f| (f.path.clone(), f.kind.clone())).collect()
}

/// A pod's text with nothing but this field, and the line that the field is on.
pub fn doc_for(path: &str, last: &str, value: &str) -> (String, usize) {
    let mut text = "apiVersion: v1\nkind: Pod\n".to_owned();
    let steps: Vec<&str> = path.split('.').collect();
    let mut indent = String::new();
    let mut dash = "";
    for (index, step) in steps.iter().enumerate() {
        let (name, is_list) = step.strip_suffix("[]").map_or((*step, false), |name| (name, true));
        let is_last = index + 1 == steps.len();
        let (name, value) = if is_last { (last, value) } else { (name, "") };
        text.push_str(&format!("{indent}{dash}{name}: {value}\n"));
        indent.push_str(if dash.is_empty() { "  " } else { "    " });
        dash = if is_list { "- " } else { "" };
    }
    let line = text.lines().count();
    (text, line)
}

/// One typo for every eighth field: they go to a real API server, too. All of them are tested here.
pub fn typos() -> Vec<Case> {
    let fields = pod_fields().into_iter().filter(|(path, _)| path.starts_with("spec.")).step_by(8);
    fields
        .map(|(path, _)| {
            let name = path.rsplit('.').next().unwrap().to_owned();
            let wrong = format!("{name}x");
            Case {
                name: format!("typo in {path}"),
                text: with_name(&doc_for(&path, &wrong, "null").0),
                verdict: Verdict::Refused,
                field: wrong,
            }
        })
        .collect()
}

/// Values of another type.
pub fn wrong_types() -> Vec<Case> {
    let wrong = |kind: &str| match kind {
        "a boolean" => Some("\"false\""),
        "i32" | "i64" => Some("\"1\""),
        "a string" => Some("12"),
        "a list" => Some("word"),
        "a map" => Some("[word]"),
        _ => None,
    };
    let fields = pod_fields().into_iter().filter(|(path, _)| path.starts_with("spec.")).step_by(9);
    fields
        .filter_map(|(path, kind)| {
            let value = wrong(&kind)?;
            let name = path.rsplit('.').next().unwrap().to_owned();
            Some(Case {
                name: format!("{value} in {path}"),
                text: with_name(&doc_for(&path, &name, value).0),
                verdict: Verdict::Refused,
                field: name,
            })
        })
        .collect()
}

fn with_name(text: &str) -> String {
    text.replacen("kind: Pod\n", "kind: Pod\nmetadata: {name: a}\n", 1)
}
