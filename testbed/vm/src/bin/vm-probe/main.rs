//! Tries on the running kernel what wardlet relies on. Runs in the guest, as root.
//!
//! `vm-probe FACT` ends with 0 if the fact holds, else says what was found instead. `vm-probe list` names
//! the facts. The others serve the facts: `vm-probe as LABEL PROGRAM…` becomes the program with that label,
//! `vm-probe try WHAT PATH` ends with the number of the error that it met, `vm-probe label PATH` prints a
//! file's label, `vm-probe idmap PATH` the name of the filesystem there if it can be idmapped.

mod lab;
mod layers;
mod mounts;
mod processes;

use std::process::ExitCode;

/// A fact by its name.
type Named = (&'static str, fn() -> lab::Outcome);

const FACTS: [Named; 12] = [
    ("a_context_is_quoted_for_mount_and_bare_for_fsconfig", mounts::quoting),
    ("mountinfo_shows_the_context_or_seclabel_never_both", mounts::mountinfo),
    ("one_superblock_has_one_context", mounts::one_superblock),
    ("binds_and_remounts_keep_the_context_they_found", mounts::binds_and_remounts),
    ("a_context_is_never_written_to_disk", mounts::not_on_disk),
    ("every_tmpfs_has_a_context_of_its_own", mounts::tmpfs),
    ("overlays_over_one_lower_layer_have_contexts_of_their_own", layers::overlay),
    ("an_overlay_takes_no_detached_layers", layers::detached),
    ("an_idmapped_clone_keeps_the_context", layers::idmapped),
    ("a_process_takes_the_label_written_before_exec", processes::exec_label),
    ("categories_keep_processes_from_the_mounts_of_others", processes::categories),
    ("labels_are_written_by_who_may_relabel_and_only_known_ones", processes::relabel),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["list"] => {
            FACTS.iter().for_each(|(name, _)| println!("{name}"));
            ExitCode::SUCCESS
        }
        ["as", label, program @ ..] => report(processes::become_labelled(label, program)),
        ["label", path] => report(lab::label(path).map(|label| println!("{label}"))),
        ["idmap", path] => report(layers::try_idmap(path)),
        ["try", what, path] => ExitCode::from(processes::try_on(what, path)),
        [fact] => report(find(fact).and_then(lab::in_private)),
        _ => report(Err("which fact? `vm-probe list` names them".into())),
    }
}

fn find(name: &str) -> Result<fn() -> lab::Outcome, String> {
    let named = FACTS.iter().find(|(fact, _)| *fact == name);
    named.map(|(_, fact)| *fact).ok_or_else(|| format!("no fact {name:?}"))
}

fn report(outcome: lab::Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(found) => {
            eprintln!("{found}");
            ExitCode::FAILURE
        }
    }
}
