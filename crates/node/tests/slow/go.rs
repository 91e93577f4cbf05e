//! As much of Go as it takes to read struct types, defaults and flags out of upstream's files.

use std::collections::BTreeMap;

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoField {
    /// Its name in Go.
    pub(crate) name: String,
    /// Its type as written.
    pub(crate) kind: String,
    /// Its name in JSON; empty where the fields of an embedded struct stand in its place.
    pub(crate) json: String,
}

/// The struct types of a file, by name.
pub(crate) fn structs(source: &str) -> BTreeMap<String, Vec<GoField>> {
    let mut found = BTreeMap::new();
    let mut current: Option<(String, Vec<GoField>)> = None;
    for line in source.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("type ").and_then(|rest| rest.strip_suffix(" struct {")) {
            current = Some((name.to_owned(), Vec::new()));
        } else if line == "}" {
            found.extend(current.take());
        } else if let Some((_, fields)) = &mut current
            && !line.starts_with("//")
            && let Some((declaration, tags)) = line.split_once('`')
        {
            fields.extend(field(declaration, tags));
        }
    }
    found
}

fn field(declaration: &str, tags: &str) -> Option<GoField> {
    let tag = tags.split_once("json:\"")?.1.split_once('"')?.0;
    let json = tag.split(',').next().unwrap_or_default().to_owned();
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let (name, kind) = match words.as_slice() {
        [embedded] => (*embedded, *embedded),
        [name, kind] => (*name, *kind),
        _ => return None,
    };
    (json != "-").then(|| GoField { name: name.to_owned(), kind: kind.to_owned(), json })
}

/// `if obj.FIELD == … { obj.FIELD = VALUE }`: the values that upstream sets, by the path of the field in Go. Nested `if`s
/// are cases of their own, the last of which counts.
pub(crate) fn defaults(source: &str) -> BTreeMap<String, String> {
    let assignment = |line: &str| {
        let (path, value) = line.trim().strip_prefix("obj.")?.split_once(" = ")?;
        Some((path.to_owned(), value.to_owned()))
    };
    source.lines().filter_map(assignment).collect()
}

/// The names of the flags that a file registers by a literal.
pub(crate) fn flags(source: &str) -> Vec<String> {
    let is_name = |text: &&str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let registered = source.lines().map(str::trim).filter(|line| {
        line.starts_with("fs.") && line.split('(').next().is_some_and(|call| call.contains("Var"))
    });
    // The first literal is the name; flags of another form are named by constants.
    registered.filter_map(|line| line.split('"').nth(1)).filter(is_name).map(str::to_owned).collect()
}
