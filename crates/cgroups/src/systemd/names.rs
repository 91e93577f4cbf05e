//! Names of units, and the cgroups that they have.

use crate::error::{Error, Result};

const SLICE: &str = ".slice";
const SCOPE: &str = ".scope";
/// The slice that all others are in; its cgroup is the root of the hierarchy.
const ROOT: &str = "-";
/// What the scopes of containers are called, before a dash and the container's ID.
const SCOPE_PREFIX: &str = "wardlet";
/// The cgroup of a container in its scope: systemd writes the files of a scope's own cgroup, and none below it.
const CONTAINER: &str = "container";
/// systemd's own limit.
const LONGEST: usize = 255;

/// A slice or a scope of systemd, by the path of its cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    name: String,
    /// The slice that it is in.
    slice: Option<String>,
    is_slice: bool,
}

impl Unit {
    /// The unit that has the cgroup at `path`; `None` for a cgroup that by its name is not a unit's.
    ///
    /// # Errors
    /// [`Error::Path`] if systemd has a unit of this name elsewhere.
    pub fn of(path: &str) -> Result<Option<Self>> {
        let path = path.trim_matches('/');
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_slice = name.ends_with(SLICE);
        if !is_slice && !name.ends_with(SCOPE) {
            return Ok(None);
        }
        let refused = |why| Error::Path { path: format!("/{path}"), why };
        let slice = above.rsplit('/').next().filter(|slice| !slice.is_empty()).map(str::to_owned);
        let expected = match (&slice, is_slice) {
            (_, true) => slice_path(name)?,
            (Some(slice), false) => format!("{}/{name}", slice_path(slice)?),
            (None, false) => return Err(refused("a scope must be in a slice")),
        };
        if expected.trim_start_matches('/') != path || name.len() > LONGEST {
            return Err(refused("systemd has the unit of this name elsewhere"));
        }
        Ok(Some(Self { name: name.to_owned(), slice, is_slice }))
    }

    /// The scope around the container that has the cgroup at `path`; `None` for another cgroup.
    ///
    /// # Errors
    /// As [`Unit::of`].
    pub fn around(path: &str) -> Result<Option<Self>> {
        match path.trim_end_matches('/').rsplit_once('/') {
            Some((above, CONTAINER)) => Ok(Self::of(above)?.filter(Self::is_scope)),
            _ => Ok(None),
        }
    }

    /// The path of its cgroup.
    ///
    /// # Errors
    /// [`Error::Path`] if it is in none that a slice can be in.
    pub(crate) fn path(&self) -> Result<String> {
        match &self.slice {
            _ if self.is_slice => slice_path(&self.name),
            Some(slice) => Ok(format!("{}/{}", slice_path(slice)?, self.name)),
            None => Ok(format!("/{}", self.name)),
        }
    }

    /// Its name, such as `kubepods.slice`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the slice that it is in; `None` for the root slice.
    #[must_use]
    pub fn slice(&self) -> Option<&str> {
        self.slice.as_deref()
    }

    /// Whether the process is in the unit's own cgroup.
    pub(super) fn has(&self, pid: u32) -> bool {
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let own = format!("/{}", self.name);
        groups.lines().any(|line| line.ends_with(&own))
    }

    /// Whether it is a scope, and not a slice.
    #[must_use]
    pub fn is_scope(&self) -> bool {
        !self.is_slice
    }
}

/// The path of the cgroup of a slice: each dash in its name is one more slice that it is in.
///
/// # Errors
/// [`Error::Path`] if it is not the name of a slice other than the root slice.
pub fn slice_path(name: &str) -> Result<String> {
    let refused = || Error::Path { path: name.to_owned(), why: "it is not the name of a slice of systemd" };
    let parts = name.strip_suffix(SLICE).filter(|parts| *parts != ROOT).ok_or_else(refused)?;
    let valid = |part: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b":_.\\@".contains(&byte);
        !part.is_empty() && part.bytes().all(known)
    };
    let (mut path, mut slice) = (String::new(), String::new());
    for part in parts.split('-') {
        if !valid(part) {
            return Err(refused());
        }
        if !slice.is_empty() {
            slice.push('-');
        }
        slice.push_str(part);
        path.push_str(&format!("/{slice}{SLICE}"));
    }
    Ok(path)
}

/// The name of the scope of the container with this ID.
fn scope_name(id: &str) -> String {
    format!("{SCOPE_PREFIX}-{id}{SCOPE}")
}

/// The path of the cgroup of the container with this ID, in a scope below the slice that has the cgroup at `slice`.
#[must_use]
pub fn container_path(slice: &str, id: &str) -> String {
    format!("{slice}/{}/{CONTAINER}", scope_name(id))
}

/// The ID of the container that has a scope of this name.
pub(crate) fn scope_id(name: &str) -> Option<&str> {
    name.strip_prefix(SCOPE_PREFIX)?.strip_prefix('-')?.strip_suffix(SCOPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_a_slice_is_in_those_that_its_name_names() {
        assert_eq!(slice_path("kubepods.slice").unwrap(), "/kubepods.slice");
        let path = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice";
        assert_eq!(slice_path("kubepods-burstable-pod1_2.slice").unwrap(), path);
        for wrong in
            ["-.slice", ".slice", "a", "a-.slice", "-a.slice", "a--b.slice", "a/b.slice", "a b.slice"]
        {
            assert!(slice_path(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_unit_is_known_by_the_path_of_its_cgroup() {
        let slice = Unit::of("/a.slice/a-b.slice").unwrap().unwrap();
        assert_eq!((slice.name(), slice.slice(), slice.is_scope()), ("a-b.slice", Some("a.slice"), false));
        let top = Unit::of("a.slice").unwrap().unwrap();
        assert_eq!((top.name(), top.slice()), ("a.slice", None));
        let scope = Unit::of(&format!("/a.slice/a-b.slice/{}", scope_name("7f"))).unwrap().unwrap();
        assert_eq!((scope.name(), scope.slice()), ("wardlet-7f.scope", Some("a-b.slice")));
        assert!(scope.is_scope());
        for plain in ["/wardlet/1", "/a.slice/b", "/a.service", ""] {
            assert_eq!(Unit::of(plain).unwrap(), None, "{plain}");
        }
    }

    #[test]
    fn a_path_that_the_unit_does_not_have_is_refused() {
        for wrong in ["/a-b.slice", "/x/a.slice", "/b.slice/a-b.slice", "/x.scope", "/x/y.scope"] {
            assert!(matches!(Unit::of(wrong), Err(Error::Path { .. })), "{wrong}");
        }
    }

    #[test]
    fn a_container_is_in_a_cgroup_of_its_own_in_its_scope() {
        let path = container_path("/a.slice/a-b.slice", "7f");
        assert_eq!(path, "/a.slice/a-b.slice/wardlet-7f.scope/container");
        assert_eq!(Unit::of(&path).unwrap(), None);
        let scope = Unit::around(&path).unwrap().unwrap();
        assert_eq!(scope.path().unwrap(), "/a.slice/a-b.slice/wardlet-7f.scope");
        let slice = Unit::of("/a.slice/a-b.slice").unwrap().unwrap();
        assert_eq!(slice.path().unwrap(), "/a.slice/a-b.slice");
        for other in ["/a.slice/container", "/a.slice/wardlet-7f.scope", "/pods/container", "container", ""] {
            assert_eq!(Unit::around(other).unwrap(), None, "{other}");
        }
        assert!(Unit::around("/x/wardlet-7f.scope/container").is_err());
    }

    #[test]
    fn a_container_is_found_by_the_name_of_its_scope() {
        assert_eq!(scope_id(&scope_name("7f")), Some("7f"));
        for other in ["wardlet-7f", "7f.scope", "cri-containerd-7f.scope"] {
            assert_eq!(scope_id(other), None, "{other}");
        }
    }
}
