use rustix::io::Errno;

use super::Error;

/// The key under which an overlay takes a lower layer's descriptor.
pub(crate) const LOWER_BY_DESCRIPTOR: &str = "lowerdir+";

impl Error {
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
    /// A further setting was made.
    #[error("set an option of")]
    Setting,
    /// The SELinux context that its files shall have was set.
    #[error("set the context of")]
    Label,
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
