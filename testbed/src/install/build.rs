//! One component from its Go module: in a directory of its own, renamed into the cache when complete.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::edit;
use crate::catalogue::{GoSource, Program, Recipe};
use crate::{Error, Result, program};

/// With what, and to where.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) go: &'a Path,
    pub(super) target: &'a Path,
}

/// How the directory of a build begins that is not finished.
pub(super) const UNFINISHED: &str = ".building-";

/// How often a long build says that it is still alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(super) fn build(source: &GoSource, place: &Place<'_>, progress: &mut dyn FnMut(&str)) -> Result<()> {
    let home = place.target.parent().unwrap_or(place.target);
    let work = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempdir_in(home)
        .map_err(Error::file("make a directory in", home))?;
    let write = |name: &str, text: &str| {
        let path = work.path().join(name);
        fs::write(&path, text).map_err(Error::file("write", path))
    };
    write("go.mod", source.module.go_mod)?;
    write("go.sum", source.module.go_sum)?;
    for (name, text) in source.module.files {
        write(name, text)?;
    }
    let replacements = edit::replacements(source, place.go, work.path())?;
    write("go.mod", &format!("{}\n{replacements}", source.module.go_mod))?;
    let out = work.path().join("out/bin");
    fs::create_dir_all(&out).map_err(Error::file("make", &out))?;
    for program in source.programs {
        let mut command = command(source, program, place.go);
        command.current_dir(work.path()).arg("-o").arg(out.join(program.binary)).arg(program.package);
        follow(&mut command, &work.path().join("log"), &mut |seconds| {
            progress(&format!("building {} ({seconds} s)", program.binary));
        })?;
    }
    let finished = work.path().join("out");
    // An interrupted removal may have left half a directory; a complete one is never replaced, for the
    // caller holds the lock and looked.
    let _ = fs::remove_dir_all(place.target);
    fs::rename(&finished, place.target).map_err(Error::file("move into place", place.target))
}

fn command(source: &GoSource, program: &Program, go: &Path) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(go);
    match program.recipe {
        Recipe::Program => command.arg("build"),
        // Vet would read all of the packages once more, which takes longer than to link them.
        Recipe::TestBinary => command.args(["test", "-c", "-vet=off"]),
    };
    command
        .args(["-mod=readonly", "-buildvcs=false", "-trimpath", "-tags", source.tags])
        .arg(format!("-ldflags=-s -w {}", source.stamp))
        .env("CGO_ENABLED", source.cgo)
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off")
        .env("GOFLAGS", std::env::var("WARDLET_GOFLAGS").unwrap_or_default())
        .stdin(Stdio::null());
    command
}

/// Waits for a build, its words going to `log`, and reports every so often that it goes on.
fn follow(command: &mut Command, log: &Path, heartbeat: &mut dyn FnMut(u64)) -> Result<()> {
    let file = fs::File::create(log).map_err(Error::file("make", log))?;
    let copy = file.try_clone().map_err(Error::file("open", log))?;
    command.stdin(Stdio::null()).stdout(file).stderr(copy);
    let mut child =
        command.spawn().map_err(|source| Error::Spawn { program: program::line(command), source })?;
    let began = Instant::now();
    let mut said = Instant::now();
    heartbeat(0);
    loop {
        if let Some(status) = child.try_wait().map_err(Error::file("wait for the build of", log))? {
            if status.success() {
                return Ok(());
            }
            let text = fs::read_to_string(log).unwrap_or_default();
            let said = program::tail(&text);
            return Err(Error::Program { program: program::line(command), status: status.to_string(), said });
        }
        if said.elapsed() >= HEARTBEAT {
            said = Instant::now();
            heartbeat(began.elapsed().as_secs());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
