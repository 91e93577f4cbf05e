use std::path::{Component, Path, PathBuf};

/// A path inside of the container without `.` and `..`; it cannot lead above `/`.
pub(crate) fn inside(path: &str) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => _ = clean.pop(),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}
