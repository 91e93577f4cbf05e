//! Files of Go modules: downloaded, verified one by one and copied into the cache. Nothing of them is built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::build::{Place, UNFINISHED};
use crate::manifests::{Module, files_below};
use crate::{Error, Result, program};

/// What `go mod download -json` says of one module.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Downloaded {
    /// Where the module is unpacked.
    dir: PathBuf,
}

/// Takes the files of `modules` to `place`: all of them, or none if one has another digest than expected.
pub(super) fn install(modules: &[Module], place: &Place<'_>, progress: &mut dyn FnMut(&str)) -> Result<()> {
    let home = place.target.parent().unwrap_or(place.target);
    let work = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempdir_in(home)
        .map_err(Error::file("make a directory in", home))?;
    let out = work.path().join("out");
    let files = out.join("files");
    fs::create_dir_all(&files).map_err(Error::file("make", &files))?;
    for module in modules {
        progress(&format!("downloading {}@{}", module.path, module.version));
        copy(module, &download(module, place.go, work.path())?, &files)?;
    }
    // An interrupted removal may have left half a directory; a complete one is never replaced, because the caller
    // holds the lock and has looked.
    let _ = fs::remove_dir_all(place.target);
    fs::rename(&out, place.target).map_err(Error::file("move into place", place.target))
}

fn copy(module: &Module, from: &Path, to: &Path) -> Result<()> {
    for file in module.files {
        let path = from.join(file.path);
        file.verify(module, &path)?;
        let target = to.join(file.name);
        if path.is_dir() {
            copy_tree(&path, &target)?;
        } else {
            copy_file(&path, &target)?;
        }
    }
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for path in files_below(from)? {
        let target = to.join(&path);
        let parent = target.parent().unwrap_or(to);
        fs::create_dir_all(parent).map_err(Error::file("make", parent))?;
        copy_file(&from.join(&path), &target)?;
    }
    Ok(())
}

/// Content only: the files of Go's module cache are read-only.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let content = fs::read(from).map_err(Error::file("read", from))?;
    fs::write(to, content).map_err(Error::file("write", to))
}

/// Where Go keeps the module after the download. `work` has no go.mod, and the digests of the files are checked by the
/// caller: the checksum database adds nothing to them and need not be reachable.
fn download(module: &Module, go: &Path, work: &Path) -> Result<PathBuf> {
    let mut command = Command::new(go);
    command.args(["mod", "download", "-json"]).arg(format!("{}@{}", module.path, module.version));
    command
        .current_dir(work)
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off")
        .env("GOSUMDB", "off")
        .env("GOFLAGS", std::env::var("WARDLET_GOFLAGS").unwrap_or_default());
    let text = program::text(&mut command)?;
    let downloaded: Downloaded = serde_json::from_str(&text).map_err(|e| Error::Program {
        program: program::line(&command),
        status: format!("its answer cannot be read: {e}"),
        said: program::tail(&text),
    })?;
    Ok(downloaded.dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::ModuleFile;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const FILES: &[ModuleFile] = &[ModuleFile { name: "one.yaml", path: "deploy/one.yaml", sha256: EMPTY }];
    const MODULE: Module = Module { path: "example.com/one", version: "v1.0.0", files: FILES };

    #[test]
    fn a_file_is_copied_only_with_the_digest_of_the_table() {
        let (module, cache) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
        fs::create_dir(module.path().join("deploy")).expect("a directory");
        fs::write(module.path().join("deploy/one.yaml"), "not empty").expect("a file");
        let refused = copy(&MODULE, module.path(), cache.path());
        assert!(matches!(refused, Err(Error::Digest { .. })), "{refused:?}");
        assert!(!cache.path().join("one.yaml").exists());
        fs::write(module.path().join("deploy/one.yaml"), "").expect("a file");
        copy(&MODULE, module.path(), cache.path()).expect("the content of the table");
        assert!(cache.path().join("one.yaml").exists());
    }

    #[test]
    fn a_directory_is_copied_with_all_below_it() {
        let (from, to) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
        fs::create_dir_all(from.path().join("a/b")).expect("directories");
        fs::write(from.path().join("a/b/one.yaml"), "1").expect("a file");
        fs::write(from.path().join("two.yaml"), "2").expect("a file");
        copy_tree(from.path(), &to.path().join("pods")).expect("copied");
        let read = |path: &str| fs::read_to_string(to.path().join("pods").join(path)).expect(path);
        assert_eq!((read("a/b/one.yaml"), read("two.yaml")), ("1".to_owned(), "2".to_owned()));
    }

    #[test]
    fn a_path_that_the_module_does_not_have_is_named() {
        let empty = tempfile::tempdir().expect("a directory");
        let error = copy(&MODULE, empty.path(), empty.path()).expect_err("no such file");
        assert!(error.to_string().contains("deploy/one.yaml"), "{error}");
    }
}
