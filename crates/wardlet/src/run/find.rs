use std::path::Path;

use agent::{Stored, stored};

use crate::failure::Failure;
use crate::words;

/// All recorded pods. Logs a warning for each record that cannot be read.
pub(crate) fn all(state: &Path) -> Result<Vec<Stored>, Failure> {
    let (found, wrong) = stored(state)?;
    wrong.iter().for_each(|error| words::warning(&error.to_string()));
    Ok(found)
}

/// The recorded pod with this name, `namespace/name` or UID.
///
/// # Errors
/// If there is none, or more than one.
pub(crate) fn one(state: &Path, called: &str) -> Result<Stored, Failure> {
    let is_meant = |pod: &Stored| {
        let record = &pod.record;
        let title = format!("{}/{}", record.namespace, record.name);
        [record.name.as_str(), record.uid.as_str(), title.as_str()].contains(&called)
    };
    let mut found: Vec<Stored> = all(state)?.into_iter().filter(is_meant).collect();
    match (found.pop(), found.is_empty()) {
        (Some(pod), true) => Ok(pod),
        (Some(_), false) => Err(Failure::unknown(format!("{called}: several pods are called so"))
            .with_hint("name it by namespace/name or by UID: `wardlet ps -o json` shows them")),
        (None, _) => Err(Failure::refused(format!("{called}: there is no such pod"))
            .with_hint("`wardlet ps` shows the pods that run here")),
    }
}

/// The refusal of a container that the pod does not have.
pub(crate) fn no_container(wanted: &str, names: &str) -> Failure {
    Failure::refused(format!("{wanted}: the pod has no such container")).with_hint(format!("it has {names}"))
}
