//! The cache of built components: one directory per name, version and way of building.

use std::path::PathBuf;

use ring::digest::{Context, SHA256};

use crate::catalogue::{Component, GoSource, Source, component};
use crate::manifests::Module;
use crate::{Error, Result, paths};

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Twelve digits that change with anything that changes the result.
fn fingerprint(source: &GoSource) -> String {
    let mut context = Context::new(&SHA256);
    for part in [source.module.go_mod, source.tags, source.cgo, source.stamp] {
        context.update(part.as_bytes());
        context.update(&[0]);
    }
    for program in source.programs {
        context.update(program.package.as_bytes());
        context.update(&[0]);
    }
    for (name, text) in source.module.files {
        context.update(name.as_bytes());
        context.update(text.as_bytes());
    }
    for edit in source.edits {
        context.update(edit.file.as_bytes());
        context.update(edit.to.as_bytes());
    }
    hex(context.finish().as_ref()).chars().take(12).collect()
}

/// The same for files: digits that change with any of their names and digests.
fn files_fingerprint(modules: &[Module]) -> String {
    let mut context = Context::new(&SHA256);
    for file in modules.iter().flat_map(|module| module.files) {
        context.update(file.name.as_bytes());
        context.update(&[0]);
        context.update(file.sha256.as_bytes());
    }
    hex(context.finish().as_ref()).chars().take(12).collect()
}

/// Where the component is once installed: its programs in `bin`, its files in `files`; `None` for Debian's.
#[must_use]
pub fn directory(component: &Component) -> Option<PathBuf> {
    let fingerprint = match &component.source {
        Source::Go(source) => fingerprint(source),
        Source::Files(modules) => files_fingerprint(modules),
        Source::Debian(_) => return None,
    };
    let key = format!("{}-{fingerprint}", component.version);
    Some(paths::cache_root().join(component.name).join(key))
}

/// Whether everything of the component is there.
#[must_use]
pub fn installed(component: &Component) -> bool {
    match &component.source {
        Source::Go(source) => directory(component).is_some_and(|dir| {
            source.programs.iter().all(|program| dir.join("bin").join(program.binary).is_file())
        }),
        Source::Files(modules) => directory(component).is_some_and(|dir| {
            let mut files = modules.iter().flat_map(|module| module.files);
            files.all(|file| dir.join("files").join(file.name).exists())
        }),
        Source::Debian(packages) => packages.iter().all(|(_, sign)| crate::install::debian::present(sign)),
    }
}

/// The path of one program of one component.
///
/// # Errors
/// If it is not installed.
pub fn program(name: &str, binary: &str) -> Result<PathBuf> {
    let component = component(name)?;
    let missing = || Error::NotInstalled {
        binary: binary.to_owned(),
        component: name.to_owned(),
        version: component.version.to_owned(),
    };
    let path = directory(component).ok_or_else(missing)?.join("bin").join(binary);
    if path.is_file() { Ok(path) } else { Err(missing()) }
}

/// The directories of all installed components, for PATH.
#[must_use]
pub fn search_path() -> String {
    let cached = crate::catalogue::COMPONENTS
        .iter()
        .filter(|component| matches!(component.source, Source::Go(_)) && installed(component))
        .filter_map(directory)
        .map(|dir| dir.join("bin").display().to_string());
    let system = std::env::var("PATH").unwrap_or_default();
    let usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
    cached.chain([system, usual]).collect::<Vec<_>>().join(":")
}
