//! A chunk of a manifest: a whole text, or a part cut out of one.

use manifest::{Finding, Listed, Position};
use plan::{Gates, KubernetesVersion};

use crate::object::{Problem, SourcePosition};

/// What the objects are looked at for.
#[derive(Debug, Clone)]
pub struct Lens {
    /// The version whose Pod Security Standards hold: the one after the upgrade.
    pub version: KubernetesVersion,
    /// The gates after the upgrade.
    pub gates: Gates,
}

/// Why a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The user named it: it must hold objects.
    Named,
    /// It was found in a directory, where other things are too.
    Found,
}

/// A chunk of a manifest: a whole text, or a part cut out of one.
#[derive(Debug, Clone)]
pub struct ManifestChunk<'a> {
    /// The text's name for messages.
    pub file: &'a str,
    /// Whether the user named the text.
    pub origin: Origin,
    /// The chunk itself.
    pub bytes: &'a [u8],
    /// Where in the text the chunk begins.
    pub at: Position,
    /// What it is in its list: `items[3]`, or nothing.
    pub prefix: String,
    /// What its list says of it.
    pub listed: Listed,
}

impl ManifestChunk<'_> {
    /// A place in the chunk as a place in the text.
    pub(crate) fn place(&self, at: Position) -> SourcePosition {
        let column = if at.line <= 1 { at.column + self.at.column.saturating_sub(1) } else { at.column };
        SourcePosition { file: self.file.to_owned(), line: self.at.line.saturating_sub(1) + at.line, column }
    }

    pub(crate) fn problem(&self, finding: &Finding) -> Problem {
        let field = match (self.prefix.as_str(), finding.path.as_str()) {
            ("", path) => path.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, path) => format!("{prefix}.{path}"),
        };
        Problem {
            place: Some(self.place(finding.at)),
            field,
            cause: finding.problem.to_string(),
            hint: finding.hint().unwrap_or_default(),
        }
    }
}
