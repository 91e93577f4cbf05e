use std::path::PathBuf;

use tonic::{Code, Status};

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the devices of a node cannot be managed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The checkpoint, or its directory, cannot be read or written.
    #[error(transparent)]
    File(#[from] durable::Error),
    /// The checkpoint is not what a kubelet or this agent has written.
    #[error("{}: {cause}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A socket cannot be made.
    #[error("cannot {action} {}: {cause}", path.display())]
    Socket {
        /// The operation, as a verb.
        action: &'static str,
        /// The socket.
        path: PathBuf,
        /// The kernel's error.
        cause: std::io::Error,
    },
    /// Another process serves there.
    #[error("{}: another process serves on this socket", .0.display())]
    Taken(PathBuf),
    /// The metrics cannot be registered.
    #[error(transparent)]
    Metrics(#[from] telemetry::metrics::Error),
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::File(error) => return error.hint().map(str::to_owned),
            Self::Checkpoint { path, .. } => {
                return Some(format!(
                    "end the pods of this node that have devices of plugins, then remove {}: which container has which device \
                     is known from nowhere else",
                    path.display()
                ));
            }
            Self::Socket { .. } => {
                "make sure that root can write to the directory, and that its path is short: a socket's has at most 107 bytes"
            }
            Self::Taken(_) => {
                "stop the kubelet, or the other agent, that has this root directory; or choose another with --root-dir"
            }
            Self::Metrics(_) => return None,
        };
        Some(text.to_owned())
    }
}

/// Why a container gets no devices. The texts are a kubelet's where it has them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// No plugin has registered the resource.
    #[error("cannot allocate unregistered device {resource}")]
    Unregistered {
        /// The resource.
        resource: String,
    },
    /// No device of the resource can be used.
    #[error("no healthy devices present; cannot allocate unhealthy devices {resource}")]
    NoneHealthy {
        /// The resource.
        resource: String,
    },
    /// A device that the container has cannot be used any more.
    #[error(
        "previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
    )]
    Unhealthy {
        /// The resource.
        resource: String,
    },
    /// Too few devices are free.
    #[error(
        "requested number of devices unavailable for {resource}. Requested: {requested}, Available: {available}"
    )]
    TooFew {
        /// The resource.
        resource: String,
        /// How many more are asked for.
        requested: usize,
        /// How many are free.
        available: usize,
    },
    /// The container has another number of devices than it asks for.
    #[error(
        "pod {pod:?} container {container:?} changed request for resource {resource:?} from {before} to {now}"
    )]
    Changed {
        /// The UID of the pod.
        pod: String,
        /// The container.
        container: String,
        /// The resource.
        resource: String,
        /// How many it has.
        before: usize,
        /// How many it asks for.
        now: u64,
    },
    /// The devices of the resource are known, and its plugin is gone.
    #[error("unknown Device Plugin {resource}")]
    NoPlugin {
        /// The resource.
        resource: String,
    },
    /// The plugin answered with an error, or not in time.
    #[error("{}{source}", .call.prefix())]
    Plugin {
        /// What it was asked.
        call: PluginCall,
        /// Its answer.
        source: CallError,
    },
    /// The plugin's answer is for no container.
    #[error("no containers return in allocation response of the plugin of {resource}")]
    NoResponse {
        /// The resource.
        resource: String,
    },
    /// The plugin wants annotations that decide on the isolation of pods.
    #[error("the plugin of {resource} sets the annotation {annotation:?}, which plugins may not")]
    Annotation {
        /// The resource.
        resource: String,
        /// The annotation.
        annotation: String,
    },
    /// The devices were allocated by an earlier process, and their plugin has not registered with this one.
    #[error(
        "the plugin of {resource} has not registered since the agent was started: the container waits for it"
    )]
    NotYet {
        /// The resource.
        resource: String,
    },
    /// The allocation cannot be recorded, so that a later process would give the devices away again.
    #[error("failed to write checkpoint file: {0}")]
    NotRecorded(String),
}

/// A call of a device plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginCall {
    /// `GetPreferredAllocation`.
    GetPreferredAllocation,
    /// `Allocate`.
    Allocate,
    /// `PreStartContainer`.
    PreStartContainer,
}

impl PluginCall {
    /// What a kubelet puts before the error of the call.
    const fn prefix(self) -> &'static str {
        match self {
            Self::GetPreferredAllocation => "device plugin GetPreferredAllocation rpc failed with err: ",
            Self::Allocate => "",
            Self::PreStartContainer => "device plugin PreStartContainer rpc failed with err: ",
        }
    }
}

/// Why a call of a plugin brought no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The plugin, or the connection to it, answered with an error.
    #[error("rpc error: code = {code:?} desc = {message}")]
    Refused {
        /// What kind of error.
        code: Code,
        /// In the plugin's words.
        message: String,
    },
    /// The plugin did not answer in time.
    #[error("the plugin at {} gave no answer within {seconds} s", socket.display())]
    Silent {
        /// Its socket.
        socket: PathBuf,
        /// How long it was given.
        seconds: u64,
    },
    /// There is no connection to the plugin.
    #[error("failed to dial device plugin: {}: {cause}", socket.display())]
    Connect {
        /// Its socket.
        socket: PathBuf,
        /// The kernel's error, or that of the transport.
        cause: String,
    },
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        Self::Refused { code: status.code(), message: status.message().to_owned() }
    }
}
