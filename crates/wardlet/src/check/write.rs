//! Patches as files. They are applied by nobody but the user.

use std::collections::BTreeMap;
use std::path::Path;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::report::{Apply, Patch, Report, Verdict, Who};
use crate::failure::Failure;

/// How patches are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PatchFormat {
    /// One file for each object, for `kubectl patch --patch-file`
    Kubectl,
    /// The same with names in them, and a kustomization.yaml that is a component
    Kustomize,
}

/// Writes the smallest patch for every workload that is ready for a user namespace into
/// `user-namespaces`, and the best fix of every volume into `selinux`.
pub(crate) fn patches(report: &Report, dir: &Path, format: PatchFormat) -> Result<usize, Failure> {
    let ready = report.workloads.iter().filter(|w| w.user_namespace.verdict == Verdict::Ready);
    let isolating = ready.filter_map(|workload| workload.patch.as_ref()).cloned().collect();
    let best = report.fixes.iter().filter_map(|fix| fix.options.first());
    let labelling = merged(best.flat_map(|option| &option.patches));
    let sets: [(&str, Vec<Patch>); 2] = [("user-namespaces", isolating), ("selinux", labelling)];
    let mut written = 0;
    for (name, patches) in sets.iter().filter(|(_, patches)| !patches.is_empty()) {
        write_set(&dir.join(name), patches, format)?;
        written += patches.len();
    }
    Ok(written)
}

/// One patch for each object: several volumes may each want something of it.
fn merged<'a>(patches: impl Iterator<Item = &'a Patch>) -> Vec<Patch> {
    let mut all: BTreeMap<Who, Patch> = BTreeMap::new();
    for patch in patches {
        match all.get_mut(&patch.target.who) {
            Some(known) => merge(&mut known.body, &patch.body),
            None => drop(all.insert(patch.target.who.clone(), patch.clone())),
        }
    }
    all.into_values().collect()
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert_with(|| Value::Object(Map::new())), value);
            }
        }
        (Value::Array(into), Value::Array(from)) => {
            let new: Vec<Value> = from.iter().filter(|item| !into.contains(item)).cloned().collect();
            into.extend(new);
        }
        (into, from) => *into = from.clone(),
    }
}

fn write_set(dir: &Path, patches: &[Patch], format: PatchFormat) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|e| unwritable(dir, &e))?;
    let mut files = Vec::new();
    for patch in patches {
        let file = format!("{}.yaml", file_name(&patch.target.who));
        let text = match format {
            PatchFormat::Kubectl => yaml(&patch.body)?,
            PatchFormat::Kustomize => yaml(&named(patch))?,
        };
        write(&dir.join(&file), &(header(patch, &file) + &text))?;
        files.push(json!({"path": file}));
    }
    if format == PatchFormat::Kustomize {
        let component = json!({
            "apiVersion": "kustomize.config.k8s.io/v1alpha1",
            "kind": "Component",
            "patches": files,
        });
        write(&dir.join("kustomization.yaml"), &yaml(&component)?)?;
    }
    Ok(())
}

/// Names of objects have no characters that a file's may not have, but for those that nobody checked.
fn file_name(who: &Who) -> String {
    let name = format!("{}-{}-{}", who.namespace, who.kind.to_lowercase(), who.name);
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') { c } else { '_' };
    name.trim_start_matches('.').chars().map(safe).take(200).collect()
}

fn header(patch: &Patch, file: &str) -> String {
    let how = match (patch.apply, &patch.command) {
        (Apply::Patch, Some(command)) => command.replace("FILE", file),
        (Apply::Recreate, _) => {
            "these fields of a running object cannot change: change its manifest and make it anew".to_owned()
        }
        _ => "the object was not shown: make the change where it is written".to_owned(),
    };
    let gives_up = patch.gives_up.iter().map(|loss| format!("# gives up: {}\n", one_line(loss)));
    format!("# {}\n{}", one_line(&how), gives_up.collect::<String>())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The patch with what says whose it is.
fn named(patch: &Patch) -> Value {
    let target = &patch.target;
    let mut whole = json!({
        "apiVersion": target.api_version,
        "kind": target.who.kind,
        "metadata": {"name": target.who.name, "namespace": target.who.namespace},
    });
    merge(&mut whole, &patch.body);
    whole
}

fn yaml(value: &Value) -> Result<String, Failure> {
    serde_saphyr::to_string(value).map_err(|e| Failure::unknown(format!("cannot write a patch: {e}")))
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|e| unwritable(file, &e))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::unknown(format!("cannot write {}: {error}", path.display()))
        .with_hint("name a directory that can be written by --write-patches")
}
