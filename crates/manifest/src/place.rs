use std::fmt;

use serde::Serialize;

/// Where something stands in a text, counted from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

impl Position {
    /// The beginning of a text.
    pub const START: Self = Self { line: 1, column: 1 };

    /// This line and column; numbers past any real text are cut.
    pub(crate) fn new(line: usize, column: usize) -> Self {
        let cut = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { line: cut(line), column: cut(column) }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The way to a field, as a chain on the stack: it becomes text only when there is something to say.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'a> {
    /// What stands before the object itself: `items[3]`.
    Under(&'a str),
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub(crate) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path::Field(self, name)
    }

    pub(crate) fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    /// Names of fields from the object down; list indices are left out.
    pub(crate) fn names(&self) -> Vec<&'a str> {
        match self {
            Path::Under(_) => Vec::new(),
            Path::Index(parent, _) => parent.names(),
            Path::Field(parent, name) => {
                let mut names = parent.names();
                names.push(name);
                names
            }
        }
    }

    fn is_start(&self) -> bool {
        matches!(self, Path::Under(prefix) if prefix.is_empty())
    }
}

/// Calls with the path that these steps lead to.
pub(crate) fn under(path: &Path<'_>, steps: &[&str], then: &mut dyn FnMut(&Path<'_>)) {
    match steps.split_first() {
        Some((step, rest)) => under(&path.field(step), rest, then),
        None => then(path),
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Under(prefix) => f.write_str(prefix),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Field(parent, name) if !is_plain(name) => write!(f, "{parent}[{}]", name.escape_debug()),
            Path::Field(parent, name) if parent.is_start() => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_kubernetes_writes_it() {
        let root = Path::Under("");
        let metadata = root.field("metadata");
        let annotations = metadata.field("annotations");
        assert_eq!(annotations.field("a.b/c").to_string(), "metadata.annotations[a.b/c]");
        let spec = root.field("spec");
        let containers = spec.field("containers");
        let first = containers.index(0);
        assert_eq!(first.field("image").to_string(), "spec.containers[0].image");
        assert_eq!(first.field("image").names(), ["spec", "containers", "image"]);
        let item = Path::Under("items[3]");
        assert_eq!(item.field("kind").to_string(), "items[3].kind");
    }
}
