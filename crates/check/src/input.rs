//! Objects from files, directories and standard input.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use inventory::stream::{self, Sink};
use inventory::{ManifestChunk, Objects, Origin};

use crate::report::{Problem, SourcePosition};

const STANDARD_INPUT: &str = "-";
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads all that these names stand for: a file, everything in and below a directory that ends in
/// `.yaml`, `.yml` or `.json`, or standard input. What cannot be read is remembered, and the rest read.
pub fn read(names: &[PathBuf], objects: &mut Objects) {
    for name in names {
        if name == Path::new(STANDARD_INPUT) {
            take("standard input", Origin::Named, Ok(io::stdin().lock()), objects);
        } else if name.is_dir() {
            walk(name, objects);
        } else {
            take_file(name, Origin::Named, objects);
        }
    }
}

fn walk(dir: &Path, objects: &mut Objects) {
    let entries = std::fs::read_dir(dir).and_then(|all| all.collect::<io::Result<Vec<_>>>());
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return unreadable(&dir.display().to_string(), &error, objects),
    };
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // A link to a directory may lead back up: it is not followed.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&path, objects);
        } else if is_manifest(&path) {
            take_file(&path, Origin::Found, objects);
        }
    }
}

fn is_manifest(path: &Path) -> bool {
    let ending = path.extension().and_then(|e| e.to_str());
    ending.is_some_and(|e| ENDINGS.contains(&e)) && path.is_file()
}

fn take_file(path: &Path, origin: Origin, objects: &mut Objects) {
    take(&path.display().to_string(), origin, File::open(path), objects);
}

fn take(name: &str, origin: Origin, from: io::Result<impl io::Read>, objects: &mut Objects) {
    let mut each = |chunk: &ManifestChunk<'_>| objects.take(chunk);
    let read = from.and_then(|from| stream::parts(from, &mut Sink::new(name, origin, &mut each)));
    if let Err(error) = read {
        unreadable(name, &error, objects);
    }
}

fn unreadable(name: &str, error: &io::Error, objects: &mut Objects) {
    objects.add_problem(Problem {
        place: Some(SourcePosition { file: name.to_owned(), line: 1, column: 1 }),
        field: String::new(),
        cause: format!("cannot be read: {error}"),
        hint: "name a manifest, a directory of manifests, or - for standard input".to_owned(),
    });
}
