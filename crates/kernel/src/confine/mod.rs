//! One more process in a container, held as tightly as its first one.
//!
//! Namespaces, control groups, user and groups, capabilities, seccomp filter, labels, limits and terminal
//! are all in place before the program's first instruction; until then nobody in the container can look
//! into the process that is to become it, or write to the program that it comes from.

mod between;
mod capable;
mod descriptors;
mod filter;
mod inside;
mod limit;
mod program;
mod report;
mod start;
mod terminal;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::process::Resource;

use crate::namespace::Process;

pub use program::Program;
pub use start::Started;

/// What a process in a container is to be.
#[derive(Debug)]
pub struct Confined {
    /// The process whose namespaces it joins.
    pub beside: Process,
    /// The files (`cgroup.procs`) of the control groups that it joins, open for writing.
    pub cgroups: Vec<OwnedFd>,
    /// Who it is.
    pub identity: Identity,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// What it may gain, and which system calls it may make.
    pub limits: Limits,
    /// Its labels.
    pub labels: Labels,
    /// Where it starts, by a path inside.
    pub cwd: PathBuf,
    /// Its standard streams.
    pub streams: Streams,
    /// What it runs.
    pub program: Program,
}

/// Who a process is, in the numbers of its user namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// All groups that it is in beside that.
    pub groups: Vec<u32>,
    /// The permissions that files it makes do not have.
    pub umask: u32,
}

/// The five sets of capabilities, a bit for each by its number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// No program that it starts can have more.
    pub bounding: u64,
    /// In force.
    pub effective: u64,
    /// Kept by programs that have them in their inheritable set.
    pub inheritable: u64,
    /// Can be put in force.
    pub permitted: u64,
    /// Kept by any program that is not set-user-ID.
    pub ambient: u64,
}

/// What a process is held by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Whether no program that it starts can gain more than it has.
    pub no_new_privileges: bool,
    /// Which system calls it may make.
    pub seccomp: Option<Filter>,
    /// What it may use.
    pub resources: Vec<Limit>,
    /// How soon it is killed when memory runs out; unless given, no later than others.
    pub oom_score_adj: Option<i32>,
}

impl Limits {
    /// Whether there is a filter that takes a capability to be set.
    fn filter_takes_power(&self) -> bool {
        self.seccomp.is_some() && !self.no_new_privileges
    }
}

/// A seccomp filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// The program, as the kernel reads it.
    pub program: Vec<u8>,
    /// How it is set (`SECCOMP_FILTER_FLAG_*`).
    pub flags: u32,
}

/// How much of something a process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Of what.
    pub resource: Resource,
    /// What holds; the largest number is no limit.
    pub soft: u64,
    /// How far it may be raised.
    pub hard: u64,
}

/// What the security modules know a process by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// Its SELinux label.
    pub selinux: Option<String>,
    /// Its AppArmor profile.
    pub apparmor: Option<String>,
}

/// The standard streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Those of the caller.
    Inherited,
    /// A new terminal of the container's own, of this size where one is given.
    Terminal {
        /// Rows and columns.
        size: Option<(u16, u16)>,
    },
}
