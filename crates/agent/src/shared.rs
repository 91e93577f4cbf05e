use std::path::PathBuf;
use std::sync::Arc;

use devices::DeviceManager;
use ledger::Ledger;

pub(crate) use crate::blocking::blocking;
use crate::cri::calls::Cri;
use crate::cri::dns::PodDefaults;
use crate::cri::notifier::PodNotifier;
use crate::housekeeping::logs::checks::LogWorkers;
use crate::housekeeping::logs::rotation::LogRotation;
use crate::images::ImagePulls;
use crate::metrics::Metrics;
use crate::metrics::probes::ProbeMetrics;
use crate::pod::actuated::ActuatedPods;
use crate::pod::cgroups::PodCgroups;
use crate::pod::context::PodContext;
use crate::pod::left_pods::LeftPods;
use crate::pod::running::RunningPods;
use crate::pod::volume_homes::VolumeHomes;
use crate::ports::{Clock, EventSink, ObjectStore, StatusSink};
use crate::status::events::Recorder;

/// The state that all pod workers share.
pub(crate) struct Shared {
    /// The state directory, as an absolute path.
    pub(crate) state: PathBuf,
    pub(crate) endpoint: String,
    pub(crate) cri: Cri,
    /// What pods have in effect, for a kubelet; `None` where there is none.
    pub(crate) actuated: Option<ActuatedPods>,
    /// The cgroups of the pods; `None` where the runtime makes them.
    pub(crate) cgroups: Option<Arc<PodCgroups>>,
    /// The devices of plugins; `None` where there are no plugins.
    pub(crate) devices: Option<DeviceManager>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) volumes: VolumeHomes,
    /// The kubelet's root directory, which has the volumes of new pods; `None` for the state directory.
    pub(crate) root_dir: Option<PathBuf>,
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) statuses: Arc<dyn StatusSink>,
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) notifier: Arc<PodNotifier>,
    pub(crate) settings: lifecycle::Settings,
    /// The most containers that have ended and are kept, in all pods; `None`: no limit.
    pub(crate) dead_containers: Option<u64>,
    pub(crate) logs: LogRotation,
    pub(crate) log_workers: LogWorkers,
    pub(crate) images: ImagePulls,
    pub(crate) pod_logs_dir: Option<PathBuf>,
    pub(crate) node: String,
    pub(crate) host_ip: String,
    pub(crate) defaults: PodDefaults,
    pub(crate) metrics: Metrics,
    pub(crate) probes: ProbeMetrics,
    pub(crate) running: RunningPods,
    pub(crate) left: LeftPods,
}

impl Shared {
    /// Whether more containers have ended than the node may keep.
    pub(crate) fn has_too_many_dead(&self) -> bool {
        self.dead_containers.is_some_and(|most| self.metrics.observed.dead() > most)
    }

    /// Records events of this pod.
    pub(crate) fn events_of<'a>(&'a self, context: &'a PodContext) -> Recorder<'a> {
        Recorder { sink: &*self.events, clock: &*self.clock, context }
    }
}
