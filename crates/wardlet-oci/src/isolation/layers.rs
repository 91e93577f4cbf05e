//! Reads the layers of an overlay that the caller has mounted, from its options in mountinfo.

use std::path::{Path, PathBuf};

use kernel::{FsOption, MountEntry};

/// The layers and options of an overlay, as they were given to mount(2).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// The lower directories, uppermost first. Some may be relative to the working directory of the process that
    /// mounted it.
    pub(super) lowers: Vec<PathBuf>,
    pub(super) upper: Option<PathBuf>,
    pub(super) work: Option<PathBuf>,
    /// Whether the overlay is mounted with `volatile`: its writes need not survive a crash. The kernel does not allow a
    /// second overlay with the same workdir then.
    pub(super) is_volatile: bool,
    /// Options that change what the overlay shows.
    pub(super) options: Vec<FsOption>,
}

/// Options that a second overlay of the same layers must have as well.
const KEPT: [&str; 8] =
    ["index", "metacopy", "redirect_dir", "nfs_export", "userxattr", "xino", "verity", "uuid"];
/// Options that do not matter for a second overlay.
const NO_MATTER: [&str; 8] =
    ["rw", "ro", "sync", "dirsync", "lazytime", "mand", "seclabel", "default_permissions"];

/// Parses the options of an overlay. An unknown option is an error: without it, the second overlay could show something
/// else.
pub(super) fn named(mount: &MountEntry) -> Result<Named, String> {
    let mut found = Named::default();
    if let Some(context) = mount.context() {
        found.options.push(FsOption::new("context", context));
    }
    for option in mount.super_options.iter().filter(|option| !option.starts_with("context=")) {
        let (key, value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (option.as_str(), None),
        };
        match (key, value) {
            ("lowerdir", Some(list)) => found.lowers = split(list).ok_or("it has data-only lower layers")?,
            ("lowerdir+", Some(lower)) => found.lowers.push(lower.into()),
            ("upperdir", Some(upper)) => found.upper = Some(upper.into()),
            ("workdir", Some(work)) => found.work = Some(work.into()),
            ("volatile", None) | ("fsync", Some("volatile")) => found.is_volatile = true,
            (key, Some(value)) if KEPT.contains(&key) => found.options.push(FsOption::new(key, value)),
            (key, None) if KEPT.contains(&key) => found.options.push(FsOption::flag(key)),
            (key, _) if NO_MATTER.contains(&key) => {}
            _ => return Err(format!("the overlay's option {option} is not supported")),
        }
    }
    Ok(found)
}

/// The directories of a list with colons; a backslash escapes a colon in a name. `None` for a list with an empty name,
/// which precedes data-only layers.
fn split(list: &str) -> Option<Vec<PathBuf>> {
    let mut names = vec![String::new()];
    let mut letters = list.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ':' => names.push(String::new()),
            '\\' => names.last_mut()?.push(letters.next().unwrap_or('\\')),
            letter => names.last_mut()?.push(letter),
        }
    }
    names.iter().all(|name| !name.is_empty()).then(|| names.into_iter().map(PathBuf::from).collect())
}

impl Named {
    /// The directory that relative names start at: containerd removes the common prefix of all layers, which is the
    /// directory of all snapshots, and the upper directory of a snapshot is two levels below that.
    pub(super) fn base(&self) -> Option<&Path> {
        self.upper.as_deref().filter(|upper| upper.is_absolute())?.parent()?.parent()
    }

    /// Whether some lower directory is relative.
    pub(super) fn is_relative(&self) -> bool {
        self.lowers.iter().any(|lower| lower.is_relative())
    }
}

#[cfg(test)]
mod tests {
    use kernel::MountTable;

    use super::*;

    fn of(options: &str) -> Result<Named, String> {
        let line = format!("9 1 0:9 / /o rw - overlay overlay {options}\n");
        named(MountTable::parse(&line).unwrap().by_id(9).unwrap())
    }

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn layers_are_read_with_every_escape() {
        let found =
            of(r"rw,seclabel,lowerdir=/a\054b:/c\134:d:/e\134\134f:/g\040h,upperdir=/s/7/fs,workdir=/s/7/work,index=off")
                .unwrap();
        assert_eq!(found.lowers, paths(&["/a,b", "/c:d", r"/e\f", "/g h"]));
        assert_eq!(found.upper.as_deref(), Some(Path::new("/s/7/fs")));
        assert_eq!(found.options, [FsOption::new("index", "off")]);
        assert!(!found.is_relative());
    }

    #[test]
    fn layers_given_one_by_one_are_read_in_their_order() {
        let found = of("rw,lowerdir+=/a:b,lowerdir+=/c,upperdir=/u,workdir=/w").unwrap();
        assert_eq!(found.lowers, paths(&["/a:b", "/c"]));
    }

    #[test]
    fn relative_layers_start_at_the_directory_of_all_snapshots() {
        let found =
            of("rw,lowerdir=2/fs:1/fs,upperdir=/v/snapshots/7/fs,workdir=/v/snapshots/7/work").unwrap();
        assert!(found.is_relative());
        assert_eq!(found.base(), Some(Path::new("/v/snapshots")));
        assert_eq!(of("rw,lowerdir=2/fs:1/fs,upperdir=7/fs,workdir=7/work").unwrap().base(), None);
    }

    #[test]
    fn an_overlay_that_need_not_last_is_known_by_the_words_of_older_and_newer_kernels() {
        assert!(of("rw,lowerdir=/a,upperdir=/u,workdir=/w,volatile").unwrap().is_volatile);
        assert!(of("rw,lowerdir=/a,upperdir=/u,workdir=/w,fsync=volatile").unwrap().is_volatile);
        assert!(!of("rw,lowerdir=/a,upperdir=/u,workdir=/w").unwrap().is_volatile);
    }

    #[test]
    fn a_label_is_kept_and_what_is_not_understood_is_refused() {
        let found = of("rw,context=\"u:r:t:s0:c1,c2\",lowerdir=/a,metacopy=on,userxattr").unwrap();
        let kept = [
            FsOption::new("context", "u:r:t:s0:c1,c2"),
            FsOption::new("metacopy", "on"),
            FsOption::flag("userxattr"),
        ];
        assert_eq!(found.options, kept);
        for refused in ["rw,lowerdir=/a,fsync=other", "rw,lowerdir=/a::/d", "rw,lowerdir+=/a,datadir+=/d"] {
            assert!(of(refused).is_err(), "{refused}");
        }
    }
}
