use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The longest name of a file.
const LONGEST: usize = 255;
const SUFFIX: &str = ".log";

/// A link to the log of a container, named as a kubelet does: collectors of logs search for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogLink<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) container: &'a str,
    /// The runtime's ID of the container.
    pub(crate) id: &'a str,
}

impl LogLink<'_> {
    fn name(&self) -> String {
        let Self { namespace, pod, container, id } = self;
        let name = format!("{pod}_{namespace}_{container}-{id}");
        name.chars().take(LONGEST - SUFFIX.len()).chain(SUFFIX.chars()).collect()
    }

    /// Makes the link in a directory, which is made, too.
    pub(crate) fn make(&self, dir: &Path, log: &Path) -> io::Result<()> {
        let name = self.name();
        if name.contains('/') {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is no name of a file")));
        }
        fs::create_dir_all(dir)?;
        match symlink(log, dir.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }
}

/// Removes the links of a directory that lead to `logs`, a file or a directory, or below it.
pub(crate) fn remove_links(dir: &Path, logs: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if fs::read_link(&path).is_ok_and(|target| target.starts_with(logs)) {
            gone(fs::remove_file(&path))?;
        }
    }
    Ok(())
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_named_as_a_kubelets_and_go_with_their_logs() {
        let dir = tempfile::tempdir().unwrap();
        let (links, logs) = (dir.path().join("containers"), dir.path().join("pods/shop_web_u-1"));
        let link = LogLink { namespace: "shop", pod: "web", container: "app", id: "0a1b" };
        let log = logs.join("app/0.log");
        link.make(&links, &log).unwrap();
        link.make(&links, &log).unwrap();
        assert_eq!(fs::read_link(links.join("web_shop_app-0a1b.log")).unwrap(), log);
        let other = LogLink { pod: "db", ..link };
        other.make(&links, &dir.path().join("pods/shop_db_u-2/app/0.log")).unwrap();
        let long = "x".repeat(250);
        LogLink { pod: &long, ..link }.make(&links, &logs.join("app/1.log")).unwrap();
        assert_eq!(fs::read_dir(&links).unwrap().count(), 3);
        remove_links(&links, &log).unwrap();
        assert_eq!(fs::read_dir(&links).unwrap().count(), 2);
        remove_links(&links, &logs).unwrap();
        remove_links(&dir.path().join("none"), &logs).unwrap();
        let left: Vec<_> = fs::read_dir(&links).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["db_shop_app-0a1b.log"]);
        assert!(LogLink { id: "../../x", ..link }.make(&links, &log).is_err());
    }
}
