//! Whether a conflict makes a pod wait.

use serde::Serialize;

/// Whether a pod has to wait under the gates as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reach {
    /// No pod: the kubelet counts a warning. On a persistent volume one will have to under
    /// `SELinuxMount`.
    Counted,
    /// The second of the two.
    Enforced,
}
