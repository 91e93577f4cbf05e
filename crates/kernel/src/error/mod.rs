mod hint;
mod overlay;

use std::ffi::OsString;
use std::path::PathBuf;

use ids::IdKind;
pub(crate) use overlay::LOWER_BY_DESCRIPTOR;
pub use overlay::OverlayStep;
use rustix::io::Errno;

/// The result type of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation: what was tried, on which object, and the kernel's error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first process of a new user namespace could not be started.
    #[error("cannot start a process in a new user namespace: {errno}")]
    StartChild {
        /// The kernel's error.
        errno: Errno,
    },
    /// Another process killed the first process of a new user namespace.
    #[error("process {pid}, started in a new user namespace, ended too early")]
    ChildGone {
        /// Its process ID.
        pid: i32,
    },
    /// A detached process could not be started.
    #[error("cannot start a detached process: {errno}")]
    SpawnDetached {
        /// The kernel's error.
        errno: Errno,
    },
    /// A file or directory could not be opened.
    #[error("cannot open {}: {errno}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// The kernel refused a map.
    #[error("cannot give a new user namespace the {kind} map {lines:?}: {errno}")]
    WriteMap {
        /// Which of the two maps.
        kind: IdKind,
        /// The lines as they were written.
        lines: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// The map of a foreign user namespace could not be read, or cannot be expressed in the caller's user namespace.
    #[error("cannot make sense of the {kind} map of a user namespace: {found}")]
    ReadMap {
        /// Which of the two maps.
        kind: IdKind,
        /// The text that was read, or why it could not be read.
        found: String,
    },
    /// A mount could not be cloned.
    #[error("cannot clone the mount of {}: {errno}", path.display())]
    CloneMount {
        /// The source of the clone.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// A cloned mount could not be idmapped.
    #[error("cannot idmap a mount of {}: {errno}", path.display())]
    Idmap {
        /// What the mount is a clone of.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// A detached mount could not be attached.
    #[error("cannot attach {what} to {}: {errno}", target.display())]
    Attach {
        /// The detached mount.
        what: String,
        /// The mount point.
        target: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// An overlay could not be made.
    #[error("cannot make an overlay with upper layer {}: {step}: {errno}{}", upper.display(), said(log))]
    Overlay {
        /// The upper layer.
        upper: PathBuf,
        /// The step that failed.
        step: OverlayStep,
        /// The kernel's error.
        errno: Errno,
        /// The messages of the kernel's filesystem context, if any.
        log: Vec<String>,
    },
    /// The mount points for the layers of an overlay could not be created or removed.
    #[error("cannot make mount points at {}: {errno}", dir.display())]
    MountPoints {
        /// The directory that they were to be in.
        dir: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// An overlay has more layers than this kernel accepts.
    #[error("cannot make an overlay with upper layer {}: {layers} lower layers are too many", upper.display())]
    TooManyLayers {
        /// The upper layer.
        upper: PathBuf,
        /// Their number.
        layers: usize,
    },
    /// The mount namespace could not be entered, made private or left.
    #[error("cannot {step}: {errno}")]
    MountNamespace {
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {cause}")]
    Thread {
        /// The cause.
        cause: String,
    },
    /// Waiting for input failed.
    #[error("cannot wait for input: {errno}")]
    Wait {
        /// The kernel's error.
        errno: Errno,
    },
    /// A signal's handler could not be set.
    #[error("cannot catch signal {signal}: {errno}")]
    CatchSignal {
        /// The signal's number.
        signal: i32,
        /// The kernel's error.
        errno: Errno,
    },
    /// A path that must be absolute is not.
    #[error("{} is not an absolute path", path.display())]
    NotAbsolute {
        /// The path.
        path: PathBuf,
    },
    /// Something that must be one plain name is not.
    #[error("{name:?} is not a plain name in {}", dir.display())]
    NotAName {
        /// The directory that it was to be in.
        dir: PathBuf,
        /// The value that was given.
        name: OsString,
    },
    /// Something below a directory could not be reached.
    #[error("cannot open {} below {}: {errno}", path.display(), dir.display())]
    Below {
        /// The directory.
        dir: PathBuf,
        /// The path below it.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// A directory could not be made.
    #[error("cannot make the directory {}: {errno}", path.display())]
    MakeDir {
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// A directory just created was another one when it was opened.
    #[error("another process replaced the directory {} while it was created", path.display())]
    Swapped {
        /// The directory.
        path: PathBuf,
    },
    /// A directory could not be read.
    #[error("cannot read the directory {}: {errno}", path.display())]
    ReadDir {
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// Something could not be removed.
    #[error("cannot remove {}: {errno}", path.display())]
    Remove {
        /// The file or directory.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// A mount point is in the way of a removal.
    #[error("{} is a mount point, and nothing is removed through a mount", path.display())]
    MountInTheWay {
        /// The mount point.
        path: PathBuf,
    },
    /// A file's properties could not be read.
    #[error("cannot look at {}: {errno}", path.display())]
    Stat {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// The SELinux label of a file could not be changed.
    #[error("cannot label {}: {errno}", path.display())]
    Label {
        /// The file.
        path: PathBuf,
        /// The kernel's error; `ENAMETOOLONG` for a tree that is too deep.
        errno: Errno,
    },
    /// A directory could not be synced.
    #[error("cannot sync {}: {errno}", path.display())]
    Sync {
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// A line of mountinfo that cannot be parsed.
    #[error("cannot read this line of mountinfo: {line:?}")]
    MountInfo {
        /// The line.
        line: String,
    },
    /// A mount is idmapped, and the kernel cannot give it another map.
    #[error("cannot idmap a mount of {}: it is idmapped already", path.display())]
    AlreadyIdmapped {
        /// What the mount is a clone of.
        path: PathBuf,
    },
    /// A mount could not be changed.
    #[error("cannot change {what}: {errno}")]
    SetAttributes {
        /// The mount.
        what: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// A filesystem could not be made.
    #[error("cannot make a {name}: {errno}{}", said(log))]
    MakeFilesystem {
        /// Its type.
        name: String,
        /// The kernel's error.
        errno: Errno,
        /// The messages of the kernel's filesystem context, if any.
        log: Vec<String>,
    },
    /// A filesystem refused one of its settings.
    #[error("cannot make a {name} with {option}: {errno}{}", said(log))]
    FilesystemOption {
        /// Its type.
        name: String,
        /// The setting.
        option: String,
        /// The kernel's error.
        errno: Errno,
        /// The messages of the kernel's filesystem context, if any.
        log: Vec<String>,
    },
    /// A mount does not have the requested SELinux context.
    #[error("the mount at {} has {} and not the context {wanted}", path.display(), context_words(found))]
    OtherContext {
        /// The mount point.
        path: PathBuf,
        /// The requested value.
        wanted: String,
        /// What mountinfo shows.
        found: Option<String>,
    },
    /// Nothing is mounted there.
    #[error("nothing is mounted at {}", path.display())]
    NotMounted {
        /// The path.
        path: PathBuf,
    },
    /// A mount could not be unmounted.
    #[error("cannot unmount {}: {errno}", path.display())]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// A thread could not become the user that a user namespace is to be counted against.
    #[error("cannot take on user {uid}, to have a user namespace counted against it: {errno}")]
    Charge {
        /// The user.
        uid: u32,
        /// The kernel's error.
        errno: Errno,
    },
    /// New namespaces could not be made.
    #[error("cannot make new namespaces: cannot {step}: {errno}")]
    NewNamespaces {
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
    /// A network namespace could not be entered or left.
    #[error("cannot {step} a network namespace: {errno}")]
    NetworkVisit {
        /// The operation that failed.
        step: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
    /// The requested namespaces cannot be created that way.
    #[error("cannot make new namespaces: {what}")]
    NotSuchNamespaces {
        /// The cause.
        what: String,
    },
    /// A namespace could not be pinned at a path.
    #[error("cannot pin a namespace at {}: {errno}", path.display())]
    Pin {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// Another namespace than expected is pinned there.
    #[error("{} is not the namespace that it should be: {found}", path.display())]
    OtherPin {
        /// The path.
        path: PathBuf,
        /// What is pinned instead.
        found: String,
    },
    /// A trial of the kernel succeeded without the expected effect.
    #[error("cannot {step}: found {found}")]
    Trial {
        /// The expected effect.
        step: &'static str,
        /// The observed effect.
        found: String,
    },
    /// A process could not be opened, signalled or read.
    #[error("cannot {step} process {pid}: {errno}")]
    Process {
        /// The operation that failed.
        step: &'static str,
        /// Its process ID.
        pid: i32,
        /// The kernel's error.
        errno: Errno,
    },
    /// A namespace could not be joined.
    #[error("cannot join a namespace of kind {kind}: {errno}")]
    JoinNamespace {
        /// Its kind.
        kind: crate::namespace::NamespaceKind,
        /// The kernel's error.
        errno: Errno,
    },
    /// Files could not be made as another owner.
    #[error("cannot make files as {owner}: {errno}")]
    FileOwner {
        /// The owner.
        owner: crate::path::Owner,
        /// The kernel's error.
        errno: Errno,
    },
    /// The devices of a cgroup could not be limited.
    #[error("cannot {step} the BPF program that limits which devices a container may use: {errno}")]
    DeviceFilter {
        /// The operation that failed.
        step: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
    /// A process could not be made undumpable.
    #[error("cannot keep this process from being traced: {errno}")]
    Undumpable {
        /// The kernel's error.
        errno: Errno,
    },
    /// A session keyring could not be created.
    #[error("cannot have a session keyring of its own: {errno}")]
    Keyring {
        /// The kernel's error.
        errno: Errno,
    },
    /// A process could not be started in a container.
    #[error("cannot start a process in the container: cannot {step}: {errno}")]
    Confine {
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
    /// A program could not be run.
    #[error("cannot run {name:?}: {errno}")]
    Program {
        /// The name that was given.
        name: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// The caller has other threads, which a fork would lack.
    #[error("a process with {threads} threads cannot be copied")]
    NotAlone {
        /// Their number.
        threads: usize,
    },
    /// An inherited descriptor is missing.
    #[error("descriptor {number} was not handed to this program: {errno}")]
    NotInherited {
        /// Its number.
        number: i32,
        /// The kernel's error.
        errno: Errno,
    },
    /// A namespace could not be queried.
    #[error("cannot ask for {what}: {errno}")]
    AskNamespace {
        /// The requested value.
        what: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
}

fn said(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!(" (the kernel says: {})", log.join("; ")) }
}

fn context_words(found: &Option<String>) -> String {
    found.as_ref().map_or_else(|| "no context".to_owned(), |context| format!("the context {context}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_error_ends_with_the_kernels_own_words() {
        let error = Error::Overlay {
            upper: "/u".into(),
            step: OverlayStep::Create,
            errno: Errno::INVAL,
            log: vec!["overlay: no".into()],
        };
        assert!(error.to_string().ends_with("(the kernel says: overlay: no)"), "{error}");
        assert_eq!(error.hint(), None);
    }

    #[test]
    fn a_filesystem_that_cannot_idmap_is_explained() {
        let error = Error::Idmap { path: "/proc".into(), errno: Errno::INVAL };
        assert!(error.to_string().contains("/proc"));
        assert!(error.hint().is_some_and(|hint| hint.contains("cannot be idmapped")));
    }
}
