//! Keys that are no settings, and which one was probably meant. What is known is read off the
//! serialised defaults.

use serde_json::Value;

/// Names less alike than this are not offered.
const ALIKE: f64 = 0.6;

/// The path of the first key in `tree` that `known` does not have.
pub(crate) fn first(tree: &Value, known: &Value) -> Option<String> {
    let (Value::Object(tree), Value::Object(known)) = (tree, known) else { return None };
    // A map whose default is empty has keys of the operator's choice.
    if known.is_empty() {
        return None;
    }
    tree.iter().find_map(|(key, value)| match known.get(key) {
        None => Some(key.clone()),
        Some(below) => first(value, below).map(|rest| format!("{key}.{rest}")),
    })
}

/// The known path whose last word is most like that of `path`.
pub(crate) fn nearest(path: &str, known: &Value) -> Option<String> {
    let score = |candidate: &String| strsim::normalized_damerau_levenshtein(word(candidate), word(path));
    paths(known)
        .into_iter()
        .filter(|candidate| score(candidate) >= ALIKE)
        // Of equally good ones, the one in the same section.
        .max_by(|a, b| score(a).total_cmp(&score(b)).then_with(|| beside(a, path).cmp(&beside(b, path))))
}

/// The keys that may stand where the last word of `path` does.
pub(crate) fn beside_it(path: &str, known: &Value) -> Vec<String> {
    paths(known).into_iter().filter(|p| beside(p, path)).map(|p| word(&p).to_owned()).collect()
}

fn paths(known: &Value) -> Vec<String> {
    let Value::Object(map) = known else { return Vec::new() };
    let below = |(key, value): (&String, &Value)| {
        let deeper = paths(value).into_iter().map(|rest| format!("{key}.{rest}"));
        std::iter::once(key.clone()).chain(deeper).collect::<Vec<_>>()
    };
    map.iter().flat_map(below).collect()
}

fn word(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn section(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(section, _)| section)
}

fn beside(a: &str, b: &str) -> bool {
    section(a) == section(b)
}
