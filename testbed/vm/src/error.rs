use std::io;
use std::path::{Path, PathBuf};

use crate::console::ConsoleLog;
use crate::series::Series;

/// The result type of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, on the host or in the guest. Where the guest has a part in it, the end of its
/// console log comes along.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the host could not be read, written or made.
    #[error("cannot {verb} {}: {cause}", path.display())]
    File {
        /// The operation that failed.
        verb: &'static str,
        /// The path that it was applied to.
        path: PathBuf,
        /// The answer.
        cause: io::Error,
    },
    /// A program of the host could not be started.
    #[error("cannot start {program}: {cause}")]
    Start {
        /// The program.
        program: String,
        /// The answer.
        cause: io::Error,
    },
    /// A program of the host failed.
    #[error("{command} failed ({status}): {said}")]
    Failed {
        /// The program with its arguments.
        command: String,
        /// Its exit status.
        status: String,
        /// The last lines it wrote to its standard error.
        said: String,
    },
    /// Debian packages are missing and this user cannot install them.
    #[error("these Debian packages are missing and only root can install them: {}", packages.join(" "))]
    PackagesMissing {
        /// The packages.
        packages: Vec<&'static str>,
    },
    /// The package lists of this machine have no such kernel.
    #[error("apt knows no package {package} to install (kernel {series})")]
    NoPackage {
        /// The series asked for.
        series: Series,
        /// The package that would bring it.
        package: String,
    },
    /// There is too little room in the cache.
    #[error("{} has {free_mib} MiB free, and a kernel needs {needed_mib} MiB", cache.display())]
    Space {
        /// The cache directory.
        cache: PathBuf,
        /// What is free there.
        free_mib: u64,
        /// What is needed.
        needed_mib: u64,
    },
    /// The kernel was never installed into the cache, or for another version of the policy.
    #[error("kernel {series} is not installed in {}", cache.display())]
    NotInstalled {
        /// The series asked for.
        series: Series,
        /// The cache directory.
        cache: PathBuf,
    },
    /// An installed kernel or a built program has not what it should have.
    #[error("{what} of {} is missing", place.display())]
    Incomplete {
        /// What is missing.
        what: String,
        /// Where.
        place: PathBuf,
    },
    /// There is neither WARDLET_CACHE nor a home directory.
    #[error("there is no place for the cache: WARDLET_CACHE, XDG_CACHE_HOME and HOME are all unset")]
    NoCache,
    /// A program could not be started in the guest.
    #[error("cannot start {program} in the guest: {cause}")]
    NotStarted {
        /// The program.
        program: String,
        /// The guest's answer.
        cause: String,
    },
    /// A file could not be brought into or out of the guest.
    #[error("cannot {verb} {path} in the guest: {said}")]
    GuestFile {
        /// The operation that failed.
        verb: &'static str,
        /// The path that it was applied to.
        path: String,
        /// What the guest said.
        said: String,
    },
    /// A command took longer than it may. It was killed; the guest lives on.
    #[error("{command} was still running in the guest after {seconds} s and was killed")]
    Overran {
        /// The command.
        command: String,
        /// Its time limit.
        seconds: u64,
        /// The end of the console log.
        console: ConsoleLog,
    },
    /// The guest no longer answers. It was killed.
    #[error("the guest hangs: no answer in {seconds} s while it was to {doing}")]
    Hang {
        /// How long it was waited for.
        seconds: u64,
        /// What it was to do.
        doing: String,
        /// The end of the console log.
        console: ConsoleLog,
    },
    /// The guest's kernel panicked.
    #[error("the guest's kernel panicked: {cause}")]
    Panic {
        /// The kernel's own words.
        cause: String,
        /// The end of the console log.
        console: ConsoleLog,
    },
    /// The guest's kernel made a fault of its own: a bug there.
    #[error("the guest's kernel oopsed: {cause}")]
    Oops {
        /// The kernel's own words.
        cause: String,
        /// The end of the console log.
        console: ConsoleLog,
    },
    /// The guest, or QEMU, ended before it was asked to.
    #[error("the guest ended while it was to {doing}")]
    Ended {
        /// What it was to do.
        doing: String,
        /// The end of the console log, with QEMU's own words.
        console: ConsoleLog,
    },
}

impl Error {
    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::PackagesMissing { packages } => {
                Some(format!("sudo apt-get install --no-install-recommends {}", packages.join(" ")))
            }
            Self::NoPackage { .. } => {
                Some("the kernels are in Debian 12 (bookworm) and bookworm-security, section main".into())
            }
            Self::Space { .. } => Some("WARDLET_CACHE moves the cache".into()),
            Self::NotInstalled { .. } => Some("cargo run -p vm -- install".into()),
            _ => None,
        }
    }

    /// The end of the guest's console log, if the guest had a part in it.
    #[must_use]
    pub fn console(&self) -> Option<&ConsoleLog> {
        match self {
            Self::Overran { console, .. }
            | Self::Hang { console, .. }
            | Self::Panic { console, .. }
            | Self::Oops { console, .. }
            | Self::Ended { console, .. } => Some(console),
            _ => None,
        }
    }

    pub(crate) fn file(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::File { verb, path: path.to_owned(), cause }
    }
}
