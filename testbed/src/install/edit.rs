//! Changes to a component's source. Go accepts no replacement of a single downloaded file, so that the whole module is
//! copied beside the build, and go.mod gets a `replace` line for the copy.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::catalogue::{Edit, GoSource};
use crate::{Error, Result, program};

/// Makes the changes in copies below `work`. Answers what go.mod is to say besides.
pub(super) fn replacements(source: &GoSource, go: &Path, work: &Path) -> Result<String> {
    let mut lines = String::new();
    for (number, edit) in source.edits.iter().enumerate() {
        let copy = work.join(format!("edited-{number}"));
        let original = downloaded(edit, go, work)?;
        program::run(Command::new("cp").args(["-r", "--no-preserve=mode"]).arg(original).arg(&copy))?;
        let file = copy.join(edit.file);
        let text = fs::read_to_string(&file).map_err(Error::file("read", &file))?;
        fs::write(&file, changed(&text, edit)?).map_err(Error::file("write", &file))?;
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "replace {} => {}", edit.module, copy.display());
    }
    Ok(lines)
}

/// Where Go keeps the module.
fn downloaded(edit: &Edit, go: &Path, work: &Path) -> Result<PathBuf> {
    let run = |words: &[&str]| {
        let mut command = Command::new(go);
        command.args(words).arg(edit.module).current_dir(work);
        program::text(command.env("GOTOOLCHAIN", "local").env("GOWORK", "off"))
    };
    run(&["mod", "download"])?;
    run(&["list", "-mod=readonly", "-m", "-f", "{{.Dir}}"]).map(PathBuf::from)
}

/// Exactly one place, so that a new version does not go without its change unseen.
fn changed(text: &str, edit: &Edit) -> Result<String> {
    if text.matches(edit.from).count() == 1 {
        return Ok(text.replacen(edit.from, edit.to, 1));
    }
    Err(Error::CannotBeHad {
        what: format!("the change to {} of {}", edit.file, edit.module),
        cause: format!("{:?} is not there exactly once", edit.from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDIT: Edit = Edit { module: "m", file: "f.go", from: "score = -999", to: "score = 0" };

    #[test]
    fn a_change_is_made_where_its_words_are_once_and_refused_otherwise() {
        assert_eq!(changed("const score = -999\n", &EDIT).expect("once"), "const score = 0\n");
        assert!(changed("nothing", &EDIT).is_err());
        assert!(changed("score = -999 score = -999", &EDIT).is_err());
    }
}
