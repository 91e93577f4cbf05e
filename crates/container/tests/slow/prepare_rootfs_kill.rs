//! Killed at system call N while files are given away and a volume is filled. Needs root and strace.
//!
//! The run is recorded once; then it is repeated for every call that changes something, and killed at its
//! entry. A second process then prepares the same stage and is not killed: the result must be as after one run.

use crate::support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use container::{ImageVolume, Owners};
use kernel::MountTable;

/// What changes something that outlives the process.
const CHANGES: &[&str] = &[
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
    "lchown",
    "chown",
    "fchown",
    "fchownat",
    "chmod",
    "fchmod",
    "fchmodat",
    "setxattr",
    "lsetxattr",
    "symlink",
    "symlinkat",
    "link",
    "linkat",
    "mknod",
    "mknodat",
    "ftruncate",
    "write",
    "copy_file_range",
    "sendfile",
    "utimensat",
    "fsync",
    "mount",
    "move_mount",
    "mount_setattr",
    "fsmount",
];

/// The program.
fn actor() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| testkit::example("prepare_rootfs_actor", env!("CARGO_MANIFEST_DIR")))
}

/// A container that is not ready yet.
struct Container(tempfile::TempDir);

impl Container {
    fn new(owners: Owners) -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut start = support::start(dir.path());
        start.rootfs.owners = owners;
        let source = dir.path().join("volumes/0");
        start.volumes = vec![ImageVolume { source, target: "/data".into() }];
        let layer = &start.rootfs.lowers[0];
        fs::create_dir_all(layer.join("data/sub")).unwrap();
        for (name, mode) in [("data/file", 0o4711), ("data/sub/other", 0o640), ("plain", 0o2755)] {
            fs::write(layer.join(name), name).unwrap();
            chown(layer.join(name), Some(1000), Some(1001)).unwrap();
            fs::set_permissions(layer.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("file", layer.join("data/link")).unwrap();
        fs::create_dir(dir.path().join("stage")).unwrap();
        let text = serde_json::to_vec(&start).unwrap();
        fs::write(dir.path().join("start.json"), text).unwrap();
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, mut command: Command) -> Output {
        command.arg(self.path("start.json")).arg(self.path("stage")).output().unwrap()
    }

    fn prepare_rootfs(&self) {
        let done = self.command(Command::new(actor()));
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn traced(&self, options: &[impl AsRef<OsStr>]) -> Output {
        let mut command = testkit::strace();
        command.args(options).arg(actor());
        self.command(command)
    }

    /// Every call of a run that changes something.
    fn changes(&self) -> Vec<testkit::Call> {
        let log = self.path("log");
        let done = self.traced(&["-o", log.to_str().unwrap()]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let trace = fs::read_to_string(&log).unwrap();
        testkit::changes(&trace, |name| CHANGES.contains(&name))
    }

    /// What is on disk of it: names, owners, permissions and texts.
    fn left(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut dirs = vec![self.path("rw/upper"), self.path("volumes")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let metadata = fs::symlink_metadata(&path).unwrap();
                if metadata.is_dir() {
                    dirs.push(path.clone());
                }
                let (uid, gid, mode) = (metadata.uid(), metadata.gid(), metadata.mode());
                let name = path.strip_prefix(self.0.path()).unwrap().display();
                let text = (metadata.is_file() && path.starts_with(self.path("volumes")))
                    .then(|| fs::read_to_string(&path).unwrap());
                found.push(format!("{name} {uid}:{gid} {mode:o} {text:?}"));
            }
        }
        found.sort();
        found
    }
}

fn swept(owners: Owners) {
    let whole = Container::new(owners);
    let calls = whole.changes();
    assert!(calls.len() > 20, "the recording shows too little: {calls:?}");
    let expected = whole.left();
    let mut killed = 0;
    for call in &calls {
        let container = Container::new(owners);
        let done = container.traced(&call.kill());
        killed += usize::from(!done.status.success());
        let volume = container.path("volumes/0");
        if volume.exists() {
            let there = |text: &String| text.starts_with("volumes/0");
            let (found, wanted) = (container.left(), &expected);
            assert!(
                found.iter().filter(|t| there(t)).eq(wanted.iter().filter(|t| there(t))),
                "killed at {call}, the volume has its name and not its files: {found:#?}"
            );
        }
        container.prepare_rootfs();
        assert_eq!(container.left(), expected, "killed at {call}");
        assert_eq!(MountTable::read().unwrap().under(container.0.path()).count(), 0);
    }
    println!("{owners:?}: {} calls, killed {killed} times", calls.len());
    assert!(killed * 10 > calls.len() * 9, "only {killed} of {} runs were killed", calls.len());
}

#[test]
fn killed_at_any_call_files_are_given_away_and_volumes_filled_as_if_nobody_had_been() {
    swept(Owners::Chown);
}

#[test]
fn killed_at_any_call_a_mapped_container_is_made_ready_as_if_nobody_had_been() {
    swept(Owners::Idmap);
}
