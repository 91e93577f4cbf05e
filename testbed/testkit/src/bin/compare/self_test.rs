//! Proof that the comparison can fail: a build against itself with one key, one value, one exit code and one text changed.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::difference::Differences;
use crate::programs::{Build, Scratch};

/// What is changed in the answers of `wardlet`, and the start of the difference that must be found; none for free text.
struct Change {
    what: &'static str,
    /// The shell's, after the program has written its answer to the file $answer and ended with $code.
    script: &'static str,
    found: Option<&'static str>,
}

const CHANGES: [Change; 5] = [
    Change { what: "nothing", script: "cat $answer", found: None },
    Change {
        what: "a key",
        script: "sed 's/\"verdict\"/\"decision\"/' $answer",
        found: Some("explain: + .pods[].decision = \"runs\""),
    },
    Change {
        what: "a value",
        script: "sed 's/\"runs\"/\"starts\"/' $answer",
        found: Some("explain: + .pods[].verdict = \"starts\""),
    },
    Change {
        what: "an exit code",
        script: "cat $answer; code=7",
        found: Some("explain exit code: + exit status: 7"),
    },
    Change { what: "free text", script: "sed 's/can be idmapped/may be idmapped/' $answer", found: None },
];

/// Whether every change is found, and nothing where there is none.
pub(crate) fn run(programs: &Path, scratch: &Scratch) -> anyhow::Result<bool> {
    let programs = programs.canonicalize().with_context(|| programs.display().to_string())?;
    let old = Build::open("old", &programs, scratch)?;
    let cases = crate::examples(scratch)?;
    let case =
        cases.iter().find(|case| case.name == "examples/first-pod.yaml").context("the first example")?;
    let before = old.answers(case)?;
    let mut all_found = true;
    for (number, change) in CHANGES.iter().enumerate() {
        let directory = changed(&programs, change, &scratch.path(&format!("programs-{number}")))?;
        let new = Build::open(&format!("n{number:02}"), &directory, scratch)?;
        let mut differences = Differences::default();
        differences.add(&case.name, &before, &new.answers(case)?);
        let named = differences.named();
        let as_wanted = match change.found {
            Some(found) => named.iter().any(|name| name == found),
            None => named.is_empty(),
        };
        let verdict = if as_wanted { "as it should be" } else { "WRONG" };
        println!("{} changed: {} differences, {verdict}", change.what, named.len());
        if !as_wanted {
            named.iter().for_each(|name| println!("    {name}"));
        }
        all_found &= as_wanted;
    }
    Ok(all_found)
}

/// A directory of programs whose `wardlet` is a script around the real one.
fn changed(programs: &Path, change: &Change, directory: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir(directory)?;
    for program in ["wardlet-oci", "wardlet-monitor", "wardlet-container"] {
        symlink(programs.join(program), directory.join(program))?;
    }
    let (real, script) = (programs.join("wardlet"), change.script);
    let text = format!(
        "#!/bin/sh\nanswer=$(mktemp) && trap 'rm -f \"$answer\"' EXIT\n\"{}\" \"$@\" >\"$answer\"\ncode=$?\n{script}\nexit $code\n",
        real.display()
    );
    let wardlet = directory.join("wardlet");
    fs::write(&wardlet, text)?;
    fs::set_permissions(&wardlet, fs::Permissions::from_mode(0o755))?;
    Ok(directory.to_owned())
}
