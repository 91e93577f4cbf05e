//! Which file of a crate imports which, read from the sources: enough of Rust's paths to find files that import each
//! other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A path from the root of the crate, which is empty itself.
type Names = Vec<String>;

/// The files of one crate, by the modules that they are.
#[derive(Debug, Default)]
pub(crate) struct Files(BTreeMap<Names, File>);

/// What the code of one file names.
#[derive(Debug, Default)]
struct File {
    used: BTreeSet<Names>,
    /// Re-exports: where an item comes from, by its name here.
    re_exported: BTreeMap<String, Names>,
}

impl Files {
    /// All files below a crate's `src`, without those that are compiled for tests only.
    pub(crate) fn of_crate(src: &Path) -> Self {
        let mut sources = BTreeMap::new();
        collect(src, &[], &mut sources);
        Self::of_sources(sources)
    }

    fn of_sources(sources: BTreeMap<Names, String>) -> Self {
        let code: BTreeMap<Names, Vec<String>> =
            sources.into_iter().map(|(module, text)| (module, tokens(&text))).collect();
        let tests: BTreeSet<Names> =
            code.iter().flat_map(|(module, code)| test_files(module, code)).collect();
        let known: BTreeSet<Names> = code.keys().cloned().collect();
        let is_test = |module: &[String]| (0..=module.len()).any(|n| tests.contains(&module[..n]));
        let kept = code.into_iter().filter(|(module, _)| !is_test(module));
        Self(
            kept.map(|(module, code)| {
                let file = File::read(&module, &without_tests(&code), &known);
                (module, file)
            })
            .collect(),
        )
    }

    /// Files that import each other: each imports the next one, and the last is the first again.
    pub(crate) fn circle(&self) -> Option<Vec<String>> {
        let edges = self.edges();
        let mut finished = BTreeSet::new();
        edges.keys().find_map(|from| search(from, &edges, &mut vec![], &mut finished))
    }

    fn edges(&self) -> BTreeMap<String, BTreeSet<String>> {
        let of = |(module, file): (&Names, &File)| {
            let targets = file.used.iter().filter_map(|path| self.file_of(path)).filter(|to| *to != module);
            (name(module), targets.map(name).collect())
        };
        self.0.iter().map(of).collect()
    }

    /// The file that defines what a path names, through the re-exports on its way.
    fn file_of(&self, path: &[String]) -> Option<&Names> {
        let mut path = path.to_vec();
        // Two re-exports that name each other do not compile, but must not hang this.
        for _ in 0..16 {
            let depth = (0..=path.len()).rev().find(|&n| self.0.contains_key(&path[..n]))?;
            let (module, file) = self.0.get_key_value(&path[..depth])?;
            match path.get(depth).and_then(|item| file.re_exported.get(item)) {
                Some(origin) => path = origin.iter().chain(&path[depth + 1..]).cloned().collect(),
                None => return Some(module),
            }
        }
        None
    }
}

impl File {
    fn read(module: &[String], code: &[String], known: &BTreeSet<Names>) -> Self {
        let (mut file, mut imported_modules, mut named) = (Self::default(), BTreeMap::new(), vec![]);
        let mut at = 0;
        while at < code.len() {
            if code[at] == "use" {
                let end = (at..code.len()).find(|&i| code[i] == ";").unwrap();
                let is_re_export = at > 0 && (code[at - 1] == "pub" || code[at - 1] == ")");
                for (name, path) in leaves(&code[at + 1..end], &[]) {
                    let Some(path) = absolute(module, &path, known) else { continue };
                    if is_re_export {
                        file.re_exported.insert(name, path);
                    } else if known.contains(&path) {
                        imported_modules.insert(name, path);
                    } else {
                        file.used.insert(path);
                    }
                }
                at = end;
            } else if is_path(code, at) && (at == 0 || code[at - 1] != "::") {
                let path =
                    code[at..].chunks(2).take_while(|pair| pair.get(1).is_some_and(|mark| mark == "::"));
                let mut path: Names = path.map(|pair| pair[0].clone()).collect();
                at += 2 * path.len();
                path.extend(code.get(at).cloned());
                named.push(path);
            }
            at += 1;
        }
        for path in named {
            let through = path.first().and_then(|first| imported_modules.get(first));
            file.used.extend(match through {
                Some(module) => Some([module, &path[1..]].concat()),
                None => absolute(module, &path, known),
            });
        }
        file
    }
}

fn is_path(code: &[String], at: usize) -> bool {
    is_word(&code[at]) && code.get(at + 1).is_some_and(|next| next == "::")
}

pub(crate) fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// A path from the root of the crate; `None` for one that leads to another crate or to an item of the same file.
fn absolute(module: &[String], path: &[String], known: &BTreeSet<Names>) -> Option<Names> {
    let mut base = module.to_vec();
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        match first.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => _ = base.pop()?,
            _ if rest.len() < path.len() => break,
            child => {
                base.push(child.to_owned());
                let is_child = known.contains(&base);
                base.pop();
                if !is_child {
                    return None;
                }
                break;
            }
        }
        rest = after;
    }
    Some([&base, rest].concat())
}

/// Each item of a `use`, with the name that it has afterwards.
fn leaves(tree: &[String], before: &[String]) -> Vec<(String, Names)> {
    let mut path = before.to_vec();
    let mut at = 0;
    while at < tree.len() {
        match tree[at].as_str() {
            "::" => {}
            "{" => {
                let inner = &tree[at + 1..tree.len() - 1];
                return branches(inner).into_iter().flat_map(|branch| leaves(branch, &path)).collect();
            }
            "as" => return vec![(tree[at + 1].clone(), path)],
            "self" if !path.is_empty() => {}
            "*" => break,
            word => path.push(word.to_owned()),
        }
        at += 1;
    }
    path.last().cloned().map(|name| (name, path)).into_iter().collect()
}

/// Splits at commas that are in no braces of their own.
fn branches(list: &[String]) -> Vec<&[String]> {
    let mut depth = 0;
    let split = list.split(|token| {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        token == "," && depth == 0
    });
    split.filter(|branch| !branch.is_empty()).collect()
}

const FOR_TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

fn is_for_tests(code: &[String]) -> bool {
    code.len() > FOR_TESTS.len() && code.iter().zip(FOR_TESTS).all(|(token, expected)| token == expected)
}

/// The modules that a file declares for tests only, each in a file of its own.
fn test_files(module: &[String], code: &[String]) -> Vec<Names> {
    let marked =
        (0..code.len()).filter(|&at| is_for_tests(&code[at..])).map(|at| &code[at + FOR_TESTS.len()..]);
    let declared = marked.filter(|rest| rest[0] == "mod" && rest.get(2).is_some_and(|end| end == ";"));
    declared.map(|rest| [module, &rest[1..2]].concat()).collect()
}

/// The code without items that are compiled for tests only: each ends with its first `;` or block.
fn without_tests(code: &[String]) -> Vec<String> {
    let mut kept = vec![];
    let mut at = 0;
    while at < code.len() {
        if !is_for_tests(&code[at..]) {
            kept.push(code[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        loop {
            match code.get(at).map(String::as_str) {
                Some("{") => depth += 1,
                Some("}") => depth -= 1,
                _ => {}
            }
            let is_end = depth == 0 && code.get(at).is_none_or(|token| token == ";" || token == "}");
            at += 1;
            if is_end {
                break;
            }
        }
    }
    kept
}

/// Words, `::` and other characters one by one; no comments, strings or characters in quotes.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let mut found = vec![];
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == '"' {
            quoted(rest)
        } else if let Some(end) = raw_string(rest) {
            end
        } else if first == '\'' {
            // A lifetime has no second quote right behind it.
            let after = rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at);
            if rest[1..].starts_with('\\') {
                rest[2 + 1..].find('\'').map_or(rest.len(), |end| end + 2 + 2)
            } else if rest[after..].starts_with('\'') {
                after + 1
            } else {
                1
            }
        } else if is_word(rest) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push(rest[..end].to_owned());
            end
        } else if rest.starts_with("::") {
            found.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                found.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

/// How long the string is that the text begins with.
fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let marks = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = marks.chars().take_while(|c| *c == '#').count();
    let inside = marks[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let before = text.len() - inside.len();
    Some(before + inside.find(&end)? + end.len())
}

fn collect(dir: &Path, module: &[String], sources: &mut BTreeMap<Names, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let child = [module, std::slice::from_ref(&stem)].concat();
        if path.is_dir() {
            collect(&path, &child, sources);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let is_root_of_dir = stem == "mod" || (module.is_empty() && stem == "lib");
            let module = if is_root_of_dir { module.to_vec() } else { child };
            sources.insert(module, fs::read_to_string(&path).unwrap());
        }
    }
}

fn name(module: &Names) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("/") }
}

fn search(
    at: &str,
    edges: &BTreeMap<String, BTreeSet<String>>,
    way: &mut Vec<String>,
    finished: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(start) = way.iter().position(|earlier| earlier == at) {
        return Some(way[start..].iter().cloned().chain([at.to_owned()]).collect());
    }
    if finished.contains(at) {
        return None;
    }
    way.push(at.to_owned());
    let found = edges[at].iter().find_map(|next| search(next, edges, way, finished));
    way.pop();
    finished.insert(at.to_owned());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(sources: &[(&str, &str)]) -> Option<Vec<String>> {
        let module = |path: &str| path.split('/').filter(|part| *part != "lib").map(str::to_owned).collect();
        Files::of_sources(sources.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect())
            .circle()
    }

    #[test]
    fn files_that_import_each_other_are_found_on_every_kind_of_path() {
        let root = ("lib", "mod a; mod b; mod c; pub use b::B;");
        let found = circle(&[
            root,
            ("a", "use crate::B;"),
            ("b", "mod inner; fn f() { super::c::g(); }"),
            ("b/inner", ""),
            ("c", "use std::fmt; use super::{fmt as f, a::{self, X}};"),
        ]);
        assert_eq!(found, Some(["a", "b", "c", "a"].map(str::to_owned).to_vec()));
        let found = circle(&[
            root,
            ("a", "use crate::b; fn f() { b::g() }"),
            ("b", "use crate::a::A as X;"),
            ("c", ""),
        ]);
        assert_eq!(found, Some(["a", "b", "a"].map(str::to_owned).to_vec()));
        let found =
            circle(&[root, ("a", "mod x; use x::X;"), ("a/x", "use super::Y;"), ("b", ""), ("c", "")]);
        assert_eq!(found, Some(["a", "a/x", "a"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn a_declaration_a_re_export_a_test_a_string_and_a_comment_import_nothing() {
        let found = circle(&[
            ("lib", "mod a; mod b; #[cfg(test)] mod tests; pub use a::A; pub(crate) use b::{B, C as D};"),
            (
                "a",
                "use crate::D; // use crate::b::X;\nconst T: &str = \"crate::b::X\"; const Q: char = '\"';",
            ),
            (
                "b",
                "/// use crate::a::A;\n#[cfg(test)] mod tests { use crate::a::A; fn f() { { } } } fn x<'a>() {}",
            ),
            ("tests", "use crate::a::A;"),
            ("a/unused", "use super::super::b; use crate::a;"),
        ]);
        assert_eq!(found, None);
    }
}
