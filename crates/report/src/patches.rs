//! Patches of a report of `check` as files. Nothing is applied: that is left to the user.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use check::{Apply, ObjectRef, Patch, Report, Verdict};
use serde_json::{Map, Value, json};

/// How patches are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchFormat {
    /// One file for each object, for `kubectl patch --patch-file`.
    Kubectl,
    /// The same with names in them, and a kustomization.yaml that is a component.
    Kustomize,
}

/// Why patches were not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A patch cannot be written as YAML.
    #[error("cannot write a patch: {0}")]
    Yaml(String),
    /// A file or a directory cannot be written.
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Yaml(_) => None,
            Self::Write { .. } => Some("name a directory that can be written by --write-patches"),
        }
    }
}

/// Writes the smallest patch for every workload that is ready for a user namespace into
/// `user-namespaces`, and the best fix of every volume into `selinux`. Returns how many patches were written.
///
/// # Errors
/// If a file cannot be written; those before it are left.
pub fn write_patches(report: &Report, dir: &Path, format: PatchFormat) -> Result<usize, Error> {
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
    let mut all: BTreeMap<ObjectRef, Patch> = BTreeMap::new();
    for patch in patches {
        match all.get_mut(&patch.target.object) {
            Some(known) => merge(&mut known.body, &patch.body),
            None => drop(all.insert(patch.target.object.clone(), patch.clone())),
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

fn write_set(dir: &Path, patches: &[Patch], format: PatchFormat) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(|cause| unwritable(dir, cause))?;
    let mut files = Vec::new();
    for patch in patches {
        let file = format!("{}.yaml", file_name(&patch.target.object));
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

/// Names of objects have no characters that a file's may not have, but for those that no API server has validated.
fn file_name(object: &ObjectRef) -> String {
    let name = format!("{}-{}-{}", object.namespace, object.kind.to_lowercase(), object.name);
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
        "kind": target.object.kind,
        "metadata": {"name": target.object.name, "namespace": target.object.namespace},
    });
    merge(&mut whole, &patch.body);
    whole
}

fn yaml(value: &Value) -> Result<String, Error> {
    serde_saphyr::to_string(value).map_err(|e| Error::Yaml(e.to_string()))
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(file, text).map_err(|cause| unwritable(file, cause))
}

fn unwritable(path: &Path, cause: io::Error) -> Error {
    Error::Write { path: path.to_owned(), cause }
}
