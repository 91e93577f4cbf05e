use std::io;
use std::path::PathBuf;

/// Why a control group could not be made, limited, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The table of mounts could not be read.
    #[error(transparent)]
    Kernel(Box<kernel::Error>),
    /// This host has no control groups.
    #[error("no cgroup hierarchy is mounted on this host")]
    NoCgroups,
    /// A control group cannot be at this path.
    #[error("invalid cgroup path {path:?}: {why}")]
    Path {
        /// The path, or the part of it that is wrong.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No hierarchy of this host has the controller of a limit.
    #[error("no cgroup hierarchy of this host has {controller}, which a limit of the cgroup {} needs", group.display())]
    NoController {
        /// The group.
        group: PathBuf,
        /// The controller, or the file of one.
        controller: String,
    },
    /// The kernel refused a value that was written to a file of a cgroup.
    #[error("write {value:?} to {}", path.display())]
    WriteFile {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
        /// The cause that the kernel gave.
        #[source]
        cause: io::Error,
    },
    /// The cgroup that the cgroups of pods are to be in does not exist.
    #[error("the cgroup {path} for the pods of this node does not exist: there is no {}", missing.display())]
    NoRoot {
        /// The cgroup.
        path: String,
        /// Its missing directory.
        missing: PathBuf,
    },
    /// Cgroups are to be units of systemd on a host without it.
    #[error(
        "the cgroup driver is systemd, but process 1 of this host is another program, or its /run is not seen here"
    )]
    NoSystemd,
    /// Cgroups are to be units of systemd on a host with cgroup v1.
    #[error("the systemd cgroup driver needs cgroup v2 alone, and this host has {0:?} hierarchies")]
    SystemdVersion(crate::version::Version),
    /// systemd has not done what it was asked for.
    #[error("systemd did not {what} {unit}")]
    Systemd {
        /// What was tried, as a verb.
        what: &'static str,
        /// The unit.
        unit: String,
        /// What systemd says.
        #[source]
        cause: crate::systemd::SystemdError,
    },
    /// Processes were still running 10 s after SIGKILL.
    #[error("processes of the cgroup {} are still running after SIGKILL: {processes:?}", path.display())]
    StillRunning {
        /// The group.
        path: PathBuf,
        /// Their process IDs.
        processes: Vec<u32>,
    },
    /// A directory of a group could not be made, read or removed.
    #[error("{what} {}", path.display())]
    File {
        /// What was tried, as a verb.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause that the kernel gave.
        #[source]
        cause: io::Error,
    },
}

impl From<kernel::Error> for Error {
    fn from(error: kernel::Error) -> Self {
        Self::Kernel(Box::new(error))
    }
}

impl Error {
    /// What an administrator can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Kernel(error) => error.hint().map(Into::into),
            Self::NoCgroups => Some("mount cgroup2 at /sys/fs/cgroup".to_owned()),
            Self::NoController { .. } => {
                Some("leave the limit out, or start the kernel with the controller".to_owned())
            }
            Self::NoRoot { .. } => {
                Some("make it in every cgroup hierarchy, or leave cgroupRoot out of the configuration".to_owned())
            }
            Self::NoSystemd => Some(
                "set the driver of the runtime to cgroupfs (containerd: SystemdCgroup = false), and cgroupDriver: cgroupfs"
                    .to_owned(),
            ),
            Self::SystemdVersion(_) => Some(
                "add systemd.unified_cgroup_hierarchy=1 to the kernel's command line and reboot, or set the driver to \
                 cgroupfs here and in the runtime"
                    .to_owned(),
            ),
            Self::Systemd { unit, .. } => Some(format!("see `systemctl status {unit}` and `journalctl -u init.scope`")),
            Self::StillRunning { .. } => {
                Some("they wait for a device or a network filesystem; see /proc/PID/stack".to_owned())
            }
            Self::Path { .. } | Self::WriteFile { .. } | Self::File { .. } => None,
        }
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
