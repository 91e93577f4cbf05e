//! Metrics of isolation: the pods of this node by user namespace, and the use of the pool of host IDs. They are read when
//! they are asked for.

use std::path::PathBuf;
use std::sync::Arc;

use ledger::Ledger;
use telemetry::metrics::{Collector, Description, Error, Family, Kind};

use crate::pod::store::stored;
use crate::status::view::PodStatus;

/// The values of the label `user_namespace`: as records have them.
const MODES: [&str; 3] = ["own", "shared", "host"];

/// Reads the records of pods and the ledger.
pub(crate) struct IsolationMetrics {
    /// The state directory.
    pub(crate) state: PathBuf,
    pub(crate) ledger: Arc<Ledger>,
}

impl Collector for IsolationMetrics {
    fn families(&self) -> Result<Vec<Family>, Error> {
        let gauge = |name, help, label| Family::new(Description::new(name, help), Kind::Gauge, &[label]);
        Ok(vec![
            gauge(
                "wardlet_pods",
                "Pods on this node that are not over, by user namespace",
                "user_namespace",
            )?,
            gauge("wardlet_id_blocks", "Blocks of host IDs in the pool of this node, by state", "state")?,
        ])
    }

    fn collect(&self, families: &mut [Family]) {
        let [pods, blocks] = families else { return };
        if let Ok((known, _)) = stored(&self.state) {
            let is_over = |status: &Option<PodStatus>| status.as_ref().is_some_and(PodStatus::is_terminated);
            let modes: Vec<&str> = known
                .iter()
                .filter(|pod| !is_over(&pod.status))
                .map(|pod| pod.record.mode.as_str())
                .collect();
            for mode in MODES {
                let count = modes.iter().filter(|other| **other == mode).count();
                pods.sample(&[mode], u32::try_from(count).map_or(f64::MAX, f64::from));
            }
        }
        if let Ok(counts) = self.ledger.counts() {
            let states = [
                ("leased", counts.leased),
                ("draining", counts.draining),
                ("quarantined", counts.quarantined),
                ("pinned", counts.pinned),
                ("free", counts.free),
            ];
            states.into_iter().for_each(|(state, count)| blocks.sample(&[state], f64::from(count)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ids::BlockLength;
    use ids::pool::IdPool;
    use ids::witness::{Sighting, Witness, WitnessError};
    use ledger::{BootId, Holder, LeaseRequest, Options};
    use telemetry::metrics::Registry;
    use types::PodUid;

    use super::*;
    use crate::pod::store::{Parts, Place, PodRecord};

    struct Vacant;

    impl Witness for Vacant {
        fn look(&self) -> Result<Sighting, WitnessError> {
            Ok(Sighting::new(Vec::new(), Vec::new()))
        }

        fn remaining(&self, _: &[PathBuf]) -> Result<Vec<PathBuf>, WitnessError> {
            Ok(Vec::new())
        }
    }

    fn record(state: &Path, name: &str, mode: &str) {
        let uid = PodUid::new(name).unwrap();
        let place = Place::new(state, &uid, "shop", name);
        let parts = Parts {
            uid,
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            hash: 0,
            endpoint: String::new(),
            handler: String::new(),
            pod_logs_dir: None,
            root_dir: None,
            pod: serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap(),
        };
        let _lock = place.take().unwrap();
        let mut record = PodRecord::new(parts);
        record.mode = mode.to_owned();
        place.write_record(&record).unwrap();
    }

    #[test]
    fn pods_and_blocks_are_counted_when_they_are_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let pool = IdPool::default_for(BlockLength::DEFAULT, vec![]).unwrap();
        let options = Options::new(dir.path(), pool, BootId("b".to_owned()), Arc::new(Vacant));
        let ledger = Arc::new(Ledger::open(options).unwrap());
        let registry = Registry::default();
        let metrics = IsolationMetrics { state: dir.path().to_owned(), ledger: Arc::clone(&ledger) };
        registry.collector(Arc::new(metrics)).unwrap();
        assert!(registry.text().contains("wardlet_pods{user_namespace=\"own\"} 0\n"), "{}", registry.text());
        record(dir.path(), "a", "own");
        record(dir.path(), "b", "own");
        record(dir.path(), "c", "host");
        ledger.lease(LeaseRequest::new(Holder::new("a").unwrap())).unwrap();
        let text = registry.text();
        for line in [
            "wardlet_pods{user_namespace=\"own\"} 2\n",
            "wardlet_pods{user_namespace=\"shared\"} 0\n",
            "wardlet_pods{user_namespace=\"host\"} 1\n",
            "wardlet_id_blocks{state=\"leased\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}
