mod hint;
mod overlay;

use std::ffi::OsString;
use std::path::PathBuf;

use ids::IdKind;
pub(crate) use overlay::LOWER_BY_DESCRIPTOR;
pub use overlay::OverlayStep;
use rustix::io::Errno;

/// What this crate's calls return.
pub type Result<T> = std::result::Result<T, Error>;

/// What was tried, on what, and what the kernel answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The process that a new user namespace starts with could not be made.
    #[error("cannot start a process in a new user namespace: {errno}")]
    StartChild {
        /// The kernel's answer.
        errno: Errno,
    },
    /// Somebody ended the process that a new user namespace starts with.
    #[error("process {pid}, started in a new user namespace, ended too early")]
    ChildGone {
        /// Its process ID.
        pid: i32,
    },
    /// Nobody could be left behind.
    #[error("cannot leave a process behind that sees to the rest: {errno}")]
    LeaveBehind {
        /// The kernel's answer.
        errno: Errno,
    },
    /// A file or directory could not be opened.
    #[error("cannot open {}: {errno}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The kernel refused a map.
    #[error("cannot give a new user namespace the {kind} map {lines:?}: {errno}")]
    WriteMap {
        /// Which of the two maps.
        kind: IdKind,
        /// The lines as they were written.
        lines: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The map of a namespace that somebody else made could not be read or makes no sense from here.
    #[error("cannot make sense of the {kind} map of a user namespace: {found}")]
    ReadMap {
        /// Which of the two maps.
        kind: IdKind,
        /// What was read, or why it was not.
        found: String,
    },
    /// A mount could not be cloned.
    #[error("cannot clone the mount of {}: {errno}", path.display())]
    CloneMount {
        /// What was to be cloned.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A cloned mount could not be idmapped.
    #[error("cannot idmap a mount of {}: {errno}", path.display())]
    Idmap {
        /// What the mount is a clone of.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A detached mount could not be attached.
    #[error("cannot attach {what} to {}: {errno}", target.display())]
    Attach {
        /// The detached mount.
        what: String,
        /// Where it was to go.
        target: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// An overlay could not be made.
    #[error("cannot make an overlay with upper layer {}: {step}: {errno}{}", upper.display(), said(log))]
    Overlay {
        /// The upper layer.
        upper: PathBuf,
        /// The step that failed.
        step: OverlayStep,
        /// The kernel's answer.
        errno: Errno,
        /// The kernel's own words on it, if it had any.
        log: Vec<String>,
    },
    /// The mount points for the layers of an overlay could not be made or taken away.
    #[error("cannot make mount points at {}: {errno}", dir.display())]
    MountPoints {
        /// The directory that they were to be in.
        dir: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// An overlay has more layers than this kernel can be told of.
    #[error("cannot make an overlay with upper layer {}: {layers} lower layers are too many", upper.display())]
    TooManyLayers {
        /// The upper layer.
        upper: PathBuf,
        /// How many there are.
        layers: usize,
    },
    /// The mount namespace could not be entered, made private or left.
    #[error("cannot {step}: {errno}")]
    MountNamespace {
        /// The step that failed.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {cause}")]
    Thread {
        /// Why.
        cause: String,
    },
    /// Waiting for input failed.
    #[error("cannot wait for input: {errno}")]
    Wait {
        /// The kernel's answer.
        errno: Errno,
    },
    /// A signal's handler could not be set.
    #[error("cannot catch signal {signal}: {errno}")]
    CatchSignal {
        /// The signal's number.
        signal: i32,
        /// The kernel's answer.
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
        /// What was given.
        name: OsString,
    },
    /// Something below a directory could not be reached.
    #[error("cannot open {} below {}: {errno}", path.display(), dir.display())]
    Below {
        /// The directory.
        dir: PathBuf,
        /// The way from there.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A directory could not be made.
    #[error("cannot make the directory {}: {errno}", path.display())]
    MakeDir {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A directory just made was another one when it was opened.
    #[error("somebody put another directory at {} while it was being made", path.display())]
    Swapped {
        /// The directory.
        path: PathBuf,
    },
    /// A directory could not be read.
    #[error("cannot read the directory {}: {errno}", path.display())]
    ReadDir {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Something could not be removed.
    #[error("cannot remove {}: {errno}", path.display())]
    Remove {
        /// What.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Something is not removed because something else is mounted there.
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
        /// The kernel's answer.
        errno: Errno,
    },
    /// A file could not be given another SELinux label.
    #[error("cannot label {}: {errno}", path.display())]
    Label {
        /// The file.
        path: PathBuf,
        /// The kernel's answer; a tree that is too deep has too long a name.
        errno: Errno,
    },
    /// A directory could not be written to disk.
    #[error("cannot sync {}: {errno}", path.display())]
    Sync {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The table of mounts has a line that is none.
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
        /// The kernel's answer.
        errno: Errno,
    },
    /// A filesystem could not be made.
    #[error("cannot make a {name}: {errno}{}", said(log))]
    MakeFilesystem {
        /// Its type.
        name: String,
        /// The kernel's answer.
        errno: Errno,
        /// The kernel's own words on it, if it had any.
        log: Vec<String>,
    },
    /// A filesystem refused one of its settings.
    #[error("cannot make a {name} with {option}: {errno}{}", said(log))]
    FilesystemOption {
        /// Its type.
        name: String,
        /// The setting.
        option: String,
        /// The kernel's answer.
        errno: Errno,
        /// The kernel's own words on it, if it had any.
        log: Vec<String>,
    },
    /// A mount has not the SELinux context that was asked for.
    #[error("the mount at {} has {} and not the context {wanted}", path.display(), context_words(found))]
    OtherContext {
        /// The mount point.
        path: PathBuf,
        /// What was asked for.
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
    /// A mount could not be taken away.
    #[error("cannot unmount {}: {errno}", path.display())]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The user that a user namespace is to be counted against could not be taken on.
    #[error("cannot take on user {uid}, to have a user namespace counted against it: {errno}")]
    Charge {
        /// The user.
        uid: u32,
        /// The kernel's answer.
        errno: Errno,
    },
    /// New namespaces could not be made.
    #[error("cannot make new namespaces: cannot {step}: {errno}")]
    NewNamespaces {
        /// The step that failed.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A network namespace could not be entered or left.
    #[error("cannot {step} a network namespace: {errno}")]
    NetworkVisit {
        /// What was tried.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// What was asked for cannot be made that way.
    #[error("cannot make new namespaces: {what}")]
    NotSuchNamespaces {
        /// Why.
        what: String,
    },
    /// A namespace could not be kept at a path.
    #[error("cannot pin a namespace at {}: {errno}", path.display())]
    Pin {
        /// The path.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// What is pinned is not what was pinned.
    #[error("{} is not the namespace that it should be: {found}", path.display())]
    OtherPin {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        found: String,
    },
    /// A trial of the kernel was allowed and yet did not do what it should.
    #[error("cannot {step}: found {found}")]
    Trial {
        /// What was to be seen.
        step: &'static str,
        /// What was seen.
        found: String,
    },
    /// A process could not be held or asked about.
    #[error("cannot {step} process {pid}: {errno}")]
    Process {
        /// What was tried.
        step: &'static str,
        /// Its process ID.
        pid: i32,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A namespace could not be joined.
    #[error("cannot join a namespace of kind {kind}: {errno}")]
    JoinNamespace {
        /// Its kind.
        kind: crate::namespace::NamespaceKind,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Files could not be made as another owner.
    #[error("cannot make files as {owner}: {errno}")]
    FileOwner {
        /// The owner.
        owner: crate::path::Owner,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The devices of a control group could not be limited.
    #[error("cannot {step} the BPF program that limits which devices a container may use: {errno}")]
    DeviceFilter {
        /// What was tried.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A process could not be kept from being traced.
    #[error("cannot keep this process from being traced: {errno}")]
    Undumpable {
        /// The kernel's answer.
        errno: Errno,
    },
    /// A process could not have a session keyring of its own.
    #[error("cannot have a session keyring of its own: {errno}")]
    Keyring {
        /// The kernel's answer.
        errno: Errno,
    },
    /// A process could not be made what it was to be.
    #[error("cannot start a process in the container: cannot {step}: {errno}")]
    Confine {
        /// The step that failed.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A program could not be run.
    #[error("cannot run {name:?}: {errno}")]
    Program {
        /// As it was named.
        name: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The caller has other threads, which a copy of it would lack.
    #[error("a process with {threads} threads cannot be copied")]
    NotAlone {
        /// How many there are.
        threads: usize,
    },
    /// A descriptor that was to be left open for us is not.
    #[error("descriptor {number} was not handed to this program: {errno}")]
    NotInherited {
        /// Its number.
        number: i32,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A namespace could not be asked about.
    #[error("cannot ask for {what}: {errno}")]
    AskNamespace {
        /// What was asked for.
        what: &'static str,
        /// The kernel's answer.
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
