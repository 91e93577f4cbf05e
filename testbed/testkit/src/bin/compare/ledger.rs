//! `wardlet ids` and `wardlet config`: leases made by one build, read, translated and released by another or the same.

use std::fs;

use crate::difference::Observed;
use crate::files;
use crate::programs::{Build, exit_code, run};

/// Leases of every kind.
const LEASES: [&[&str]; 5] = [
    &["lease", "web"],
    &["lease", "db", "--ids", "131072"],
    &["lease", "job-1", "--shared", "batch"],
    &["lease", "labelled", "--categories"],
    &["lease", "short", "--until-reboot"],
];

/// What is asked of a ledger with these leases.
const QUESTIONS: [&[&str]; 9] = [
    &["list"],
    &["lease", "web"],
    &["lease", "late"],
    &["translate", "web", "--uid", "1000", "--gid", "1000"],
    &["translate", "web", "--uid", "70000"],
    &["release", "db"],
    &["release", "unknown"],
    &["gc", "--dry-run"],
    &["list"],
];

/// What `reader` answers on a new ledger with leases that `writer` made.
pub(crate) fn observe(reader: &Build, writer: &Build) -> anyhow::Result<Vec<Observed>> {
    let state = reader.path("ledger");
    let mut seen = Vec::new();
    let mut ask = |build: &Build, words: &[&str]| -> anyhow::Result<()> {
        let output = run(build.wardlet_at(&state).args(["-o", "json"]).args(words))?;
        seen.push(exit_code("ids exit code", &output));
        let mut answer = reader.json("ids", &output);
        // With its command: `lease` and `list` have keys in common.
        let command = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
        answer.lines.iter_mut().for_each(|line| *line = format!("{command} {line}"));
        seen.push(answer);
        Ok(())
    };
    ask(reader, &["config"])?;
    for words in LEASES {
        ask(writer, &[&["ids"], words].concat())?;
    }
    for words in QUESTIONS {
        ask(reader, &[&["ids"], words].concat())?;
    }
    seen.push(Observed { subject: "ids files", lines: files::listed(&state, &reader.mask)? });
    fs::remove_dir_all(&state)?;
    Ok(seen)
}
