use std::path::{Path, PathBuf};

use bundle::Resources;
use bundle::cgroup::{Eager, Group, Hierarchies, Version};

use crate::error::Result;

/// The control groups of this host.
#[derive(Debug)]
pub(crate) struct Groups(Hierarchies, Eager);

impl Groups {
    pub(crate) fn find() -> Result<Self> {
        Ok(Self(Hierarchies::find()?, Eager::default()))
    }

    /// A process will be put into one soon.
    pub(crate) fn soon(&self) {
        self.1.soon(&self.0);
    }

    pub(crate) fn version(&self) -> Version {
        self.0.version()
    }

    pub(crate) fn has(&self, controller: &str) -> bool {
        self.0.has(controller)
    }

    /// Whether swap can be limited, by looking for the file that does it.
    pub(crate) fn limits_swap(&self) -> bool {
        let files = ["memory.memsw.limit_in_bytes", "memory.swap.max"];
        let has = |root: &PathBuf| files.iter().any(|file| root.join(file).exists() || below_has(root, file));
        self.roots().is_ok_and(|roots| roots.iter().any(has))
    }

    /// The root of each hierarchy. It is nobody's, and cannot be opened; whatever is right below it leads there.
    fn roots(&self) -> Result<Vec<PathBuf>> {
        let below = Group::open(&self.0, "/wardlet")?;
        Ok(below.dirs().filter_map(Path::parent).map(Path::to_owned).collect())
    }

    pub(crate) fn make(&self, path: &str) -> Result<()> {
        Ok(Group::open(&self.0, path)?.make()?)
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        Group::open(&self.0, path).is_ok_and(|group| group.exists())
    }

    /// Ends everything in it and below; none there is fine.
    pub(crate) fn kill_all(&self, path: &str) -> Result<()> {
        let group = Group::open(&self.0, path)?;
        if group.exists() { Ok(group.kill_all()?) } else { Ok(()) }
    }

    /// Takes it away with all below it; none there is fine.
    pub(crate) fn remove(&self, path: &str) -> Result<()> {
        Ok(Group::open(&self.0, path)?.remove()?)
    }

    pub(crate) fn apply(&self, path: &str, limits: &Resources) -> Result<()> {
        Ok(Group::open(&self.0, path)?.apply(limits)?)
    }

    pub(crate) fn open(&self, path: &str) -> Result<Group> {
        Ok(Group::open(&self.0, path)?)
    }

    /// Its directories, one in each hierarchy.
    pub(crate) fn dirs(&self, path: &str) -> Result<Vec<PathBuf>> {
        Ok(Group::open(&self.0, path)?.dirs().map(Path::to_owned).collect())
    }

    /// The names of the groups below it, in whichever hierarchy.
    pub(crate) fn below(&self, path: &str) -> Result<Vec<String>> {
        let mut names: Vec<String> = vec![];
        for dir in Group::open(&self.0, path)?.dirs() {
            // A hierarchy in which it was never made.
            let Ok(entries) = std::fs::read_dir(dir) else { continue };
            let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            names.extend(dirs.filter_map(|entry| entry.file_name().into_string().ok()));
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The paths of all groups with such a name, wherever they are. None is looked for below another.
    pub(crate) fn named(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut found = vec![];
        for root in self.roots()? {
            let mut waiting = vec![(root, String::new())];
            while let Some((dir, path)) = waiting.pop() {
                // One that is removed just now has nothing below it.
                for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                    let Ok(name) = entry.file_name().into_string() else { continue };
                    if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        continue;
                    }
                    let path = format!("{path}/{name}");
                    if wanted(&name) {
                        found.push(path);
                    } else {
                        waiting.push((entry.path(), path));
                    }
                }
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }
}

/// The root of the unified hierarchy has no limits of its own; any group below it that has them shows that
/// there are some.
fn below_has(dir: &Path, file: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| entry.path().join(file).exists())
}
