//! Files of this crate import each other in one direction only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Modules by path, as `pod::worker`, and the paths below `crate::` that each imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn module_of(file: &Path) -> String {
    let text = file.with_extension("").display().to_string();
    text.trim_end_matches("/mod").replace('/', "::")
}

fn read(root: &Path, below: &Path, found: &mut Imports) {
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let name = below.join(entry.unwrap().file_name());
        if root.join(&name).is_dir() {
            read(root, &name, found);
        } else if name != Path::new("lib.rs") {
            let text = std::fs::read_to_string(root.join(&name)).unwrap();
            let module = module_of(&name);
            let above = module.rsplit_once("::").map_or("", |(above, _)| above).to_owned();
            found.insert(module, imports(&text, &above));
        }
    }
}

/// Tests may import in any direction.
fn imports(text: &str, above: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]").next().unwrap();
    let code = text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n");
    let after = |mark: &str| -> Vec<String> {
        let path = |rest: &str| {
            rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':')).collect::<String>()
        };
        code.split(mark).skip(1).map(path).collect()
    };
    let own = after("crate::");
    let beside = after("super::").into_iter().map(|path| format!("{above}::{path}"));
    own.into_iter().chain(beside).collect()
}

/// The file that a path leads to: the longest part of it that is a module.
fn target(modules: &Imports, path: &str) -> Option<String> {
    let mut path = path.trim_matches(':');
    loop {
        if modules.contains_key(path) {
            return Some(path.to_owned());
        }
        path = path.rsplit_once("::")?.0;
    }
}

/// A way from a module back to itself, if there is one.
fn circle(modules: &Imports) -> Option<Vec<String>> {
    fn walk(modules: &Imports, way: &mut Vec<String>, done: &mut BTreeSet<String>) -> Option<Vec<String>> {
        let here = way.last().unwrap().clone();
        for path in &modules[&here] {
            let Some(next) = target(modules, path).filter(|next| *next != here) else { continue };
            if let Some(start) = way.iter().position(|seen| *seen == next) {
                return Some(way[start..].to_vec());
            }
            if !done.contains(&next) {
                way.push(next);
                if let Some(found) = walk(modules, way, done) {
                    return Some(found);
                }
                way.pop();
            }
        }
        done.insert(here);
        None
    }
    let mut done = BTreeSet::new();
    modules.keys().find_map(|module| walk(modules, &mut vec![module.clone()], &mut done))
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut modules = Imports::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), Path::new(""), &mut modules);
    assert!(modules.len() > 40 && modules["pod::worker"].iter().any(|path| path.contains("cri::observe")));
    assert_eq!(circle(&modules), None);
}

#[test]
fn a_circle_is_found() {
    let text = |path: &str| imports(&format!("use crate::{path};\n// use crate::c;"), "");
    let modules = |c: &str| {
        Imports::from([
            ("a".to_owned(), text("b::X")),
            ("b".to_owned(), text("c")),
            ("c".to_owned(), text(c)),
        ])
    };
    assert_eq!(circle(&modules("d::Y")), None);
    assert_eq!(circle(&modules("a::Y")), Some(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]));
}
