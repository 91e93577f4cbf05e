use std::path::PathBuf;

use ids::IdKind;
use rustix::io::Errno;

/// The key under which an overlay takes a lower layer's descriptor.
pub(crate) const LOWER_BY_DESCRIPTOR: &str = "lowerdir+";

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
}

impl Error {
    /// What the reader can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::StartChild { errno: Errno::NOSPC } => {
                Some("this user has reached /proc/sys/user/max_user_namespaces")
            }
            Self::StartChild { errno: Errno::PERM } => Some(
                "user namespaces are forbidden here: see /proc/sys/user/max_user_namespaces and /proc/sys/kernel/unprivileged_userns_clone",
            ),
            Self::WriteMap { errno: Errno::PERM, .. } => {
                Some("run as root: mapping IDs that are not one's own takes CAP_SETUID and CAP_SETGID")
            }
            Self::WriteMap { errno: Errno::INVAL, .. } => {
                Some("the lines overlap, are none or too many, or reach 4294967295")
            }
            Self::Idmap { errno: Errno::INVAL, .. } => Some(
                "this filesystem, or one mounted below it, cannot be idmapped: ext4, xfs, btrfs and tmpfs can; overlay, proc and most network filesystems cannot",
            ),
            Self::Idmap { errno: Errno::PERM, .. } => {
                Some("the mount is idmapped already, or the caller has no CAP_SYS_ADMIN over its filesystem")
            }
            Self::Idmap { errno: Errno::NOSYS, .. } => Some("idmapped mounts take Linux 5.12 or later"),
            Self::Overlay { errno: Errno::NODEV, .. } => Some("load the kernel's overlay module"),
            error if error.is_of_layers_by_descriptor() => {
                Some("overlay layers given by descriptor take Linux 6.13 or later")
            }
            Self::TooManyLayers { .. } => {
                Some("before Linux 6.13, which takes up to 500, about 150 fit into one mount")
            }
            Self::Overlay { log, .. } if log.is_empty() => Some("`dmesg | grep overlay` may name the reason"),
            Self::MountNamespace { errno: Errno::PERM, .. }
            | Self::CloneMount { errno: Errno::PERM, .. }
            | Self::MountPoints { errno: Errno::PERM, .. }
            | Self::Attach { errno: Errno::PERM, .. } => Some("run as root: mounting takes CAP_SYS_ADMIN"),
            _ => None,
        }
    }

    /// Whether the kernel refused the way in which an overlay's layers were given, and not a layer.
    pub(crate) fn is_of_layers_by_descriptor(&self) -> bool {
        let Self::Overlay { step: OverlayStep::Layer(LOWER_BY_DESCRIPTOR), errno, log, .. } = self else {
            return false;
        };
        match *errno {
            // No descriptors at all (to 6.4), or none that cannot be read from (6.5 to 6.12).
            Errno::OPNOTSUPP | Errno::BADF => true,
            Errno::INVAL => unknown(LOWER_BY_DESCRIPTOR, log),
            _ => false,
        }
    }
}

/// The steps of making an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverlayStep {
    /// The kernel was asked for the filesystem.
    #[error("open the filesystem")]
    Open,
    /// A layer was named to it, under this key.
    #[error("set {0}")]
    Layer(&'static str),
    /// It was to be made from its layers.
    #[error("create it")]
    Create,
    /// A mount of it was to be made.
    #[error("mount it")]
    Mount,
}

/// A kernel that does not take a layer by descriptor finds fault with the key, not with the layer.
fn unknown(key: &str, log: &[String]) -> bool {
    log.is_empty() || log.iter().any(|message| message.ends_with(&format!("'{key}'")))
}

fn said(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!(" (the kernel says: {})", log.join("; ")) }
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
    fn a_refused_layer_is_told_from_a_refused_descriptor() {
        let refusal = |step, errno, words: &[&str]| Error::Overlay {
            upper: "/u".into(),
            step,
            errno,
            log: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        let lower = OverlayStep::Layer(LOWER_BY_DESCRIPTOR);
        for (errno, words) in [
            (Errno::OPNOTSUPP, None),
            (Errno::BADF, None),
            (Errno::INVAL, None),
            (Errno::INVAL, Some("overlay: Unknown parameter 'lowerdir+'")),
        ] {
            let words: Vec<&str> = words.into_iter().collect();
            assert!(refusal(lower, errno, &words).is_of_layers_by_descriptor(), "{errno} {words:?}");
        }
        let of_a_layer = "overlay: filesystem on /l not supported";
        assert!(!refusal(lower, Errno::INVAL, &[of_a_layer]).is_of_layers_by_descriptor());
        assert!(!refusal(lower, Errno::NOMEM, &[]).is_of_layers_by_descriptor());
        let upper = OverlayStep::Layer("upperdir");
        assert!(!refusal(upper, Errno::OPNOTSUPP, &[]).is_of_layers_by_descriptor());
    }

    #[test]
    fn a_filesystem_that_cannot_idmap_is_explained() {
        let error = Error::Idmap { path: "/proc".into(), errno: Errno::INVAL };
        assert!(error.to_string().contains("/proc"));
        assert!(error.hint().is_some_and(|hint| hint.contains("cannot be idmapped")));
    }
}
