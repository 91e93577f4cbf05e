//! Sysctls of the network namespace that the calling thread is in.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

const ROOT: &str = "/proc/sys/net";

/// Sets a sysctl if it has another value; returns the old value if it was changed.
pub(crate) fn set(name: &str, value: &str) -> Result<Option<String>> {
    let path = Path::new(ROOT).join(name);
    let before = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
    let before = before.trim();
    if before == value {
        return Ok(None);
    }
    fs::write(&path, value).map_err(Error::io("set", &path))?;
    Ok(Some(before.to_owned()))
}

/// The same, ignoring a sysctl that this kernel does not have.
pub(crate) fn set_if_there(name: &str, value: &str) -> Result<Option<String>> {
    match set(name, value) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        other => other,
    }
}

/// The devices that have settings of this family ("ipv4", "ipv6").
pub(crate) fn devices(family: &str) -> Result<Vec<String>> {
    let path: PathBuf = [ROOT, family, "conf"].iter().collect();
    let listed = fs::read_dir(&path).map_err(Error::io("list", &path))?;
    let names = listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter(|name| name != "all" && name != "default").collect())
}

/// The value of a sysctl.
pub(crate) fn get(name: &str) -> Result<String> {
    let path = Path::new(ROOT).join(name);
    let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
    Ok(text.trim().to_owned())
}
