use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::field::{Class, Field, Kind};
use super::fields::FIELDS;
use super::tree::{self, Node, Value};
use super::{
    KubeletConfig, KubeletConfigError, KubeletFlags, Notice, Origin, Problem, classify, defaults, gates,
    schema, validate,
};

/// The kubelet's configuration as it is in effect.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedKubeletConfig {
    /// What the agent goes by.
    pub config: KubeletConfig,
    /// Every field of KubeletConfiguration with its value or default, whether the agent honours it or not.
    pub effective: Json,
    /// What is set and changes nothing.
    pub notices: Vec<Notice>,
    /// The files that were read, in order.
    pub files: Vec<PathBuf>,
}

impl KubeletConfig {
    /// Reads the configuration file, merges the drop-ins `*.conf` of a directory over it (as JSON merge patches, in
    /// lexical order, with those of directories below it), and sets what flags set.
    ///
    /// Without `file`, the defaults are those of an empty file. A kubelet allows every request then, and has a read-only
    /// port; here both must be asked for.
    ///
    /// # Errors
    /// If a file cannot be read, or anything in it or in the flags is unknown, of another type, invalid or refused. All
    /// such problems of one stage (each file, then the whole) are reported together.
    pub fn load(
        file: Option<&Path>,
        drop_in_dir: Option<&Path>,
        flags: &KubeletFlags,
    ) -> Result<LoadedKubeletConfig, KubeletConfigError> {
        let mut tree = file.map_or_else(|| Ok(Node::empty()), main_file)?;
        defaults::apply(&mut tree);
        defaults::apply_eviction(&mut tree);
        let mut files: Vec<PathBuf> = file.map(Path::to_owned).into_iter().collect();
        if let Some(directory) = drop_in_dir {
            forget_empty_list(&mut tree);
            for drop_in in drop_ins(directory)? {
                tree.merge(read(&drop_in)?);
                files.push(drop_in);
            }
            defaults::apply(&mut tree);
        }
        for set in &flags.overrides {
            match (set.path, &set.node.value) {
                // Gates of files and flags add up; other maps of flags replace those of files.
                ("featureGates", Value::Map(entries)) => {
                    entries.iter().for_each(|entry| {
                        tree.set(&format!("featureGates.{}", entry.name), entry.node.clone())
                    });
                }
                _ => tree.set(set.path, set.node.clone()),
            }
        }
        finish(&tree, flags, files)
    }
}

fn finish(
    tree: &Node,
    flags: &KubeletFlags,
    files: Vec<PathBuf>,
) -> Result<LoadedKubeletConfig, KubeletConfigError> {
    let (mut problems, mut notices) = (Vec::new(), flags.notices.clone());
    validate::check(tree, &mut problems);
    gates::check(tree, &mut problems, &mut notices);
    classify::check(tree, &mut problems, &mut notices);
    refuse(problems)?;
    let mut honoured = tree.clone();
    let is_kept = |field: &Field| matches!(field.class, Class::Honoured { .. } | Class::NotYet { .. });
    let dropped = FIELDS.iter().filter(|field| !is_kept(field) && !field.is_in_list());
    dropped.for_each(|field| honoured.remove(field.path));
    // Sections none of whose fields is honoured.
    ["logging", "memorySwap", "tracing"].into_iter().for_each(|section| honoured.remove(section));
    forget_empty_text(&mut honoured);
    hide_node_logs(&mut honoured);
    let config = serde_json::from_value(honoured.to_json()).map_err(KubeletConfigError::Defect)?;
    Ok(LoadedKubeletConfig { config, effective: tree.to_json(), notices, files })
}

/// A kubelet serves the files of /var/log where nothing is set. Here that must be asked for.
fn hide_node_logs(tree: &mut Node) {
    const FIELD: &str = "enableSystemLogHandler";
    if tree.get(FIELD).is_some_and(|node| node.at == Origin::Default) {
        tree.set(FIELD, Node { at: Origin::Default, value: Value::Bool(false) });
    }
}

/// The main file, with its paths made absolute.
fn main_file(file: &Path) -> Result<Node, KubeletConfigError> {
    let mut tree = Node::empty();
    tree.merge(read(file)?);
    let directory = std::path::absolute(file).ok().and_then(|file| file.parent().map(Path::to_owned));
    resolve_paths(&mut tree, &directory.unwrap_or_default());
    Ok(tree)
}

fn read(file: &Path) -> Result<Node, KubeletConfigError> {
    let text = fs::read_to_string(file)
        .map_err(|source| KubeletConfigError::Unreadable { path: file.to_owned(), source })?;
    let mut problems = Vec::new();
    let tree = schema::checked(tree::parse(file, &text)?, &mut problems);
    refuse(problems)?;
    Ok(tree)
}

fn refuse(problems: Vec<Problem>) -> Result<(), KubeletConfigError> {
    if problems.is_empty() { Ok(()) } else { Err(KubeletConfigError::Invalid(problems)) }
}

/// Makes relative paths of the main file absolute.
fn resolve_paths(tree: &mut Node, directory: &Path) {
    for path in FIELDS.iter().filter(|field| field.kind == Kind::Path).map(|field| field.path) {
        let Some(node) = tree.get(path) else { continue };
        if let Value::Text(text) = &node.value
            && !text.is_empty()
            && !Path::new(text).is_absolute()
        {
            let joined = directory.join(text).to_string_lossy().into_owned();
            let node = Node { at: node.at.clone(), value: Value::Text(joined) };
            tree.set(path, node);
        }
    }
}

/// A kubelet writes the main file's configuration out before it merges drop-ins, and an empty list is not written: with
/// drop-ins, `enforceNodeAllocatable: []` of the main file means the default.
fn forget_empty_list(tree: &mut Node) {
    const FIELD: &str = "enforceNodeAllocatable";
    if tree.get(FIELD).is_some_and(|node| matches!(&node.value, Value::List(items) if items.is_empty())) {
        tree.remove(FIELD);
    }
}

/// Text that a flag made empty: no value, but for resolvConf, where it has a meaning.
fn forget_empty_text(tree: &mut Node) {
    for field in FIELDS.iter().filter(|field| !field.is_in_list() && !field.keeps_zero) {
        if tree.get(field.path).is_some_and(|node| node.value == Value::Text(String::new())) {
            tree.remove(field.path);
        }
    }
}

/// The files `*.conf` below a directory, in the order in which they are merged.
fn drop_ins(directory: &Path) -> Result<Vec<PathBuf>, KubeletConfigError> {
    let unreadable = |source| KubeletConfigError::Unreadable { path: directory.to_owned(), source };
    let mut entries =
        fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(unreadable)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut found = Vec::new();
    for entry in entries {
        if entry.file_type().map_err(unreadable)?.is_dir() {
            found.extend(drop_ins(&entry.path())?);
        } else if entry.file_name().as_encoded_bytes().ends_with(b".conf") {
            found.push(entry.path());
        }
    }
    Ok(found)
}
