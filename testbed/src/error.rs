use std::path::PathBuf;

/// What went wrong, on what, and what the system said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory could not be made, read or changed.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    File {
        /// What was tried, as an infinitive.
        action: &'static str,
        /// The path that it was applied to.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// A program could not be started at all.
    #[error("cannot run {program}: {source}")]
    Spawn {
        /// The program's name.
        program: String,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// A program ran and said no.
    #[error("{program} failed ({status}): {said}")]
    Program {
        /// The program and its arguments.
        program: String,
        /// Its exit status.
        status: String,
        /// The end of what it printed.
        said: String,
    },
    /// A component is not in the cache.
    #[error("{binary} of {component} {version} is not installed")]
    NotInstalled {
        /// The program that is missing.
        binary: String,
        /// The component that has it.
        component: String,
        /// Its pinned version.
        version: String,
    },
    /// A file of a Go module is not the one that was reviewed.
    #[error("{path} of {module} has SHA-256 {found}, and {expected} is expected")]
    Digest {
        /// The module with its version.
        module: String,
        /// The file's path in it.
        path: String,
        /// The digest in the table.
        expected: String,
        /// The digest of what was found.
        found: String,
    },
    /// There is no component, set or part of this name.
    #[error("there is no {kind} named {name:?}; known are {known}")]
    Unknown {
        /// What was looked for.
        kind: &'static str,
        /// The name given.
        name: String,
        /// What could have been meant.
        known: String,
    },
    /// The name of a testbed cannot be part of a path.
    #[error("{name:?} cannot name a testbed: 1 to 32 of a-z, 0-9 and -, not starting with -")]
    BadName {
        /// The name given.
        name: String,
    },
    /// A testbed of this name is already there.
    #[error("a testbed named {name} is already up")]
    InUse {
        /// Its name.
        name: String,
    },
    /// No testbed of this name is there.
    #[error("there is no testbed named {name}")]
    Absent {
        /// The name given.
        name: String,
    },
    /// A part did not become ready in time, or ended before.
    #[error("{part} is not ready after {seconds} s: {cause}")]
    NotReady {
        /// The part.
        part: String,
        /// How long the caller waited.
        seconds: u64,
        /// What it said last.
        cause: String,
    },
    /// The supervisor answered a request with an error, or not at all.
    #[error("the supervisor of {name} says: {said}")]
    Supervisor {
        /// The testbed.
        name: String,
        /// Its answer.
        said: String,
    },
    /// Something of a testbed is still there after it was ended.
    #[error("{name} left behind: {what}")]
    LeftBehind {
        /// The testbed.
        name: String,
        /// Each thing that is left.
        what: String,
    },
    /// A recording of CRI calls cannot be read.
    #[error("the recorded calls cannot be read: {cause}")]
    Recording {
        /// What is wrong with them.
        cause: String,
    },
    /// There is nothing to run.
    #[error("no spec of the suite {suite} is to be run; {left_out} match and are left out")]
    NoSpec {
        /// The suite.
        suite: &'static str,
        /// How many specs match and are left out.
        left_out: usize,
    },
    /// Two nodes' results say nothing about each other.
    #[error("the results cannot be compared: {cause}")]
    Incomparable {
        /// The suite of the first.
        suite: String,
        /// Why not.
        cause: String,
    },
    /// Too little room for what is to be built.
    #[error("{path} has {free} MB free and {needed} MB are needed", path = path.display())]
    DiskFull {
        /// Where.
        path: PathBuf,
        /// Free now.
        free: u64,
        /// Needed.
        needed: u64,
    },
    /// Certificates or keys could not be made.
    #[error("cannot make {what}: {said}")]
    Crypto {
        /// Which certificate, key or token.
        what: String,
        /// What the library said.
        said: String,
    },
    /// A record of ours cannot be read.
    #[error("{path} is not a record of this version: {said}", path = path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why it is invalid.
        said: String,
    },
    /// Something that only root, or this host, does not allow.
    #[error("{what} cannot be had here: {cause}")]
    CannotBeHad {
        /// What was wanted.
        what: String,
        /// Why not.
        cause: String,
    },
}

impl Error {
    /// The way out, where there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotInstalled { component, .. } => Some(format!("testbed install {component}")),
            Self::Digest { .. } => Some(
                "the file was changed on its way or in the cache: remove its component from the cache and install it \
                 again; after a change of version, correct testbed/src/manifests.rs"
                    .into(),
            ),
            Self::InUse { name } => Some(format!("testbed down {name}, or --name with another name")),
            Self::Absent { .. } => Some("testbed status lists what is up".into()),
            Self::DiskFull { .. } => {
                Some("WARDLET_CACHE moves the cache; `go clean -cache` gives back what builds left".into())
            }
            Self::NoSpec { suite, .. } => Some(format!(
                "`testbed e2e {suite} --list` names its specs; `testbed e2e any --focus REGEX` runs any spec, also one that \
                 is left out"
            )),
            Self::Incomparable { suite, .. } => Some(format!(
                "`testbed e2e {suite}` runs a kubelet on containerd, `testbed e2e {suite} --agent wardlet` the agent; then \
                 `testbed e2e --compare KUBELET OURS` takes the files that they name"
            )),
            Self::NotReady { part, .. } => Some(format!("its log: testbed logs NAME {part}")),
            _ => None,
        }
    }

    /// For `map_err` on calls that name one path.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    pub(crate) fn crypto(what: &str) -> impl Fn(rcgen::Error) -> Self {
        let what = what.to_owned();
        move |source| Self::Crypto { what: what.clone(), said: source.to_string() }
    }
}

/// The crate's own result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
