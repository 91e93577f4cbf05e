//! One more process in a container, with the same restrictions as its first one (exec).
//!
//! Namespaces, cgroups, user and groups, capabilities, seccomp filter, labels, limits and terminal are all in place
//! before the program's first instruction; until then no process of the container can trace the process that is to
//! become it, or write to the program file that it is forked from.

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

/// A process to start in a container.
#[derive(Debug)]
pub struct Confined {
    /// The process whose namespaces it joins.
    pub beside: Process,
    /// The files (`cgroup.procs`) of the cgroups that it joins, open for writing.
    pub cgroups: Vec<OwnedFd>,
    /// Its user, groups and capabilities.
    pub identity: Identity,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Privileges, system calls and resources.
    pub limits: Limits,
    /// Its labels.
    pub labels: Labels,
    /// Its working directory, as a path inside.
    pub cwd: PathBuf,
    /// Its standard streams.
    pub streams: Streams,
    /// The program.
    pub program: Program,
}

/// User and groups of a process, as IDs of its user namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
    /// Its umask.
    pub umask: u32,
}

/// The five capability sets, as bit masks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The bounding set.
    pub bounding: u64,
    /// The effective set.
    pub effective: u64,
    /// The inheritable set.
    pub inheritable: u64,
    /// The permitted set.
    pub permitted: u64,
    /// The ambient set.
    pub ambient: u64,
}

/// Limits of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// `no_new_privs`.
    pub no_new_privileges: bool,
    /// Its seccomp filter.
    pub seccomp: Option<Filter>,
    /// Its resource limits.
    pub resources: Vec<Limit>,
    /// Its `oom_score_adj`; if not set, at least 0.
    pub oom_score_adj: Option<i32>,
}

impl Limits {
    /// Whether setting the filter takes a capability.
    fn filter_takes_power(&self) -> bool {
        self.seccomp.is_some() && !self.no_new_privileges
    }
}

/// A seccomp filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// The BPF program, as the kernel reads it.
    pub program: Vec<u8>,
    /// `SECCOMP_FILTER_FLAG_*`.
    pub flags: u32,
}

/// A resource limit (setrlimit).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The resource.
    pub resource: Resource,
    /// The soft limit; the largest number is no limit.
    pub soft: u64,
    /// The hard limit.
    pub hard: u64,
}

/// The labels of security modules.
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
