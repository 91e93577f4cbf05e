//! A pod claimed by this process: found as it was left, or written down for the first time.

use std::path::Path;

use manifest::k8s_openapi::api::core::v1::Pod;
use types::PodUid;

use crate::error::{Error, Result};
use crate::store::{Parts, Place, PodRecord, Stored, stored, sweep};
use crate::tended::{Names, Tended};
use crate::ward::{Admitted, hash};

const UUID: &str = "/proc/sys/kernel/random/uuid";

/// A pod that nobody else looks after.
pub(crate) struct Claimed {
    pub(crate) place: Place,
    pub(crate) tended: Tended,
    /// On disk.
    pub(crate) record: PodRecord,
    pub(crate) origin: Origin,
}

/// Where a claimed pod comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// There was none of its name.
    New,
    /// Somebody has left it, by the same definition and on the same runtime.
    Left,
}

/// The pod that runs by this name, or a place for it.
pub(crate) fn claim(state: &Path, endpoint: &str, admitted: &Admitted) -> Result<Claimed> {
    let names = Names::lock(state)?;
    sweep(state, &names)?;
    let metadata = &admitted.pod.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    let namespace = metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let (known, wrong) = stored(state)?;
    if let Some(error) = wrong.into_iter().find(|error| is_of(error, (&namespace, &name))) {
        return Err(error);
    }
    let same = known.into_iter().find(|s| s.record.namespace == namespace && s.record.name == name);
    if let Some(known) = same {
        return left(state, (endpoint, definition(admitted)), known);
    }
    let uid = uid(metadata.uid.as_deref())?;
    let place = Place::new(state, &uid, (&namespace, &name));
    let title = format!("{namespace}/{name}");
    let tended = place.take()?.ok_or(Error::Tended { pod: title })?;
    let record = PodRecord::new(Parts {
        pod: with_uid(&admitted.pod, &uid),
        uid,
        namespace,
        name,
        hash: definition(admitted),
        endpoint: endpoint.to_owned(),
        handler: admitted.intent.runtime_handler.clone(),
    });
    place.write_record(&record)?;
    Ok(Claimed { place, tended, record, origin: Origin::New })
}

/// Whether a record that cannot be read is this pod's, as far as it tells: it may run.
fn is_of(error: &Error, pod: (&str, &str)) -> bool {
    let Error::Record { path, .. } = error else { return false };
    let text = std::fs::read(path).unwrap_or_default();
    let found: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let word = |key: &str| found.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    (word("namespace"), word("name")) == pod
}

fn left(state: &Path, (endpoint, definition): (&str, u64), known: Stored) -> Result<Claimed> {
    let Stored { record, is_tended, .. } = known;
    let title = || format!("{}/{}", record.namespace, record.name);
    if is_tended {
        return Err(Error::Tended { pod: title() });
    }
    if record.hash != format!("{definition:016x}") || record.endpoint != endpoint {
        return Err(Error::Other { pod: title() });
    }
    let place = Place::new(state, &record.uid, (&record.namespace, &record.name));
    let tended = place.take()?.ok_or_else(|| Error::Tended { pod: title() })?;
    Ok(Claimed { place, tended, record: record.tended_by_this_process(), origin: Origin::Left })
}

fn with_uid(pod: &Pod, uid: &PodUid) -> Pod {
    let mut pod = pod.clone();
    pod.metadata.uid = Some(uid.as_str().to_owned());
    pod
}

/// Another number for anything that a pod cannot be changed in while it runs.
fn definition(admitted: &Admitted) -> u64 {
    let metadata = &admitted.pod.metadata;
    let mode = admitted.plan.user_namespace;
    hash(&(&admitted.pod.spec, &metadata.labels, &metadata.annotations, mode))
}

fn uid(given: Option<&str>) -> Result<PodUid> {
    let text = match given.filter(|uid| !uid.is_empty()) {
        Some(given) => given.to_owned(),
        None => std::fs::read_to_string(UUID).map_err(Error::file("read", Path::new(UUID)))?,
    };
    PodUid::new(text.trim()).map_err(|e| Error::config("metadata.uid", e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_read_keeps_its_name_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.json");
        std::fs::write(&path, r#"{"version":9,"namespace":"shop","name":"web","more":1}"#).unwrap();
        let error = Error::Record { path: path.clone(), cause: "version 9 is not known here".into() };
        assert!(is_of(&error, ("shop", "web")) && !is_of(&error, ("shop", "db")));
        std::fs::write(&path, "rubbish").unwrap();
        assert!(!is_of(&error, ("shop", "web")));
    }
}
