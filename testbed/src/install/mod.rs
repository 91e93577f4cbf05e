//! Installing components: Debian's by apt-get, the others from their Go modules, built or copied.
//!
//! Several installations may run at once, each component is locked while it is built, and what is in the
//! cache is complete: it is built beside it and renamed.

mod build;
pub mod debian;
mod disk;
mod edit;
mod files;
mod go;

use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{FlockOperation, flock};

use crate::catalogue::{Component, Source};
use crate::{Error, Result, cache, paths};

/// What became of one component.
#[derive(Debug)]
pub struct Installed {
    /// Which.
    pub component: &'static Component,
    /// Seconds that it took now; `None` if it was there.
    pub seconds: Option<f64>,
    /// What its programs or files take on disk.
    pub megabytes: f64,
}

/// Installs what is missing of `components`; `progress` gets each step.
///
/// # Errors
/// At the first component that cannot be had; what was finished before stays.
pub fn install(components: &[&'static Component], progress: &mut dyn FnMut(&str)) -> Result<Vec<Installed>> {
    let missing: Vec<_> = components.iter().filter(|component| !cache::installed(component)).collect();
    disk::check(missing.iter().map(|component| component.megabytes).sum())?;
    let go = missing
        .iter()
        .any(|component| matches!(component.source, Source::Go(_) | Source::Files(_)))
        .then(|| go::toolchain(progress))
        .transpose()?;
    let mut done = Vec::new();
    for (index, component) in components.iter().enumerate() {
        let label = format!("[{}/{}] {} {}", index + 1, components.len(), component.name, component.version);
        let began = Instant::now();
        let built = if cache::installed(component) {
            false
        } else {
            one(component, go.as_deref(), &mut |words| progress(&format!("{label}: {words}")))?
        };
        let installed = Installed {
            component,
            seconds: built.then(|| began.elapsed().as_secs_f64()),
            megabytes: disk::megabytes(cache::directory(component).as_deref()),
        };
        progress(&match installed.seconds {
            Some(seconds) => format!("{label}: {seconds:.0} s, {:.0} MB", installed.megabytes),
            None => format!("{label}: there"),
        });
        done.push(installed);
    }
    Ok(done)
}

/// Installs one component under its lock. Says whether there was anything left to do once it was ours.
fn one(component: &Component, go: Option<&Path>, progress: &mut dyn FnMut(&str)) -> Result<bool> {
    let home = paths::cache_root().join(component.name);
    fs::create_dir_all(&home).map_err(Error::file("make", &home))?;
    let lock = home.join("lock");
    let file = File::create(&lock).map_err(Error::file("open", &lock))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        progress("another process is building it, waiting");
        flock(&file, FlockOperation::LockExclusive).map_err(|e| Error::file("lock", &lock)(e.into()))?;
    }
    if cache::installed(component) {
        return Ok(false);
    }
    remove_unfinished(&home);
    match (&component.source, go) {
        (Source::Debian(packages), _) => debian::install(packages, progress)?,
        (Source::Go(source), Some(go)) => {
            let target = cache::directory(component).unwrap_or(home);
            build::build(source, &build::Place { go, target: &target }, progress)?;
        }
        (Source::Files(modules), Some(go)) => {
            let target = cache::directory(component).unwrap_or(home);
            files::install(modules, &build::Place { go, target: &target }, progress)?;
        }
        // A toolchain is found whenever one of these is missing.
        (Source::Go(_) | Source::Files(_), None) => {}
    }
    Ok(true)
}

/// Removes the remains of a build that was killed; this process holds the lock.
fn remove_unfinished(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(build::UNFINISHED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
