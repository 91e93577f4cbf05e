//! The layers of an overlay that somebody else has mounted, from what the kernel says of it.

use std::path::{Path, PathBuf};

use kernel::{FsOption, MountEntry};

/// What an overlay is made of, as its maker named it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// The uppermost first. Some may be relative, to where the maker was.
    pub(super) lowers: Vec<PathBuf>,
    pub(super) upper: Option<PathBuf>,
    pub(super) work: Option<PathBuf>,
    /// What is written to it need not outlive the machine. The kernel lets no other overlay have its directory for work.
    pub(super) is_volatile: bool,
    /// Settings that make a difference to what is seen.
    pub(super) options: Vec<FsOption>,
}

/// Those that another overlay of the same layers has to have as well.
const KEPT: [&str; 8] =
    ["index", "metacopy", "redirect_dir", "nfs_export", "userxattr", "xino", "verity", "uuid"];
/// Those that say nothing about it.
const NO_MATTER: [&str; 8] =
    ["rw", "ro", "sync", "dirsync", "lazytime", "mand", "seclabel", "default_permissions"];

/// Reads the options of an overlay. One that is not understood is the error: without it, something else
/// might be seen.
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
            ("lowerdir", Some(list)) => found.lowers = split(list).ok_or("it has layers of data alone")?,
            ("lowerdir+", Some(lower)) => found.lowers.push(lower.into()),
            ("upperdir", Some(upper)) => found.upper = Some(upper.into()),
            ("workdir", Some(work)) => found.work = Some(work.into()),
            ("volatile", None) | ("fsync", Some("volatile")) => found.is_volatile = true,
            (key, Some(value)) if KEPT.contains(&key) => found.options.push(FsOption::new(key, value)),
            (key, None) if KEPT.contains(&key) => found.options.push(FsOption::flag(key)),
            (key, _) if NO_MATTER.contains(&key) => {}
            _ => return Err(format!("its option {option} is not understood")),
        }
    }
    Ok(found)
}

/// The directories of a list between colons; one that belongs to a name has a backslash before it. An empty
/// name is what comes before layers of data alone.
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
    /// Where relative names start: containerd cuts what all layers have in common, which is the directory of
    /// all snapshots, and a snapshot's own changes are two levels below that.
    pub(super) fn base(&self) -> Option<&Path> {
        self.upper.as_deref().filter(|upper| upper.is_absolute())?.parent()?.parent()
    }

    /// Whether some layer's place has to be found out.
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
