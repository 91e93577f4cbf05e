//! All pods of one process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ids::{IdKind, UserNamespace};
use ledger::{Categories, Holder, LeaseRequest, Ledger};
use lifecycle::{Deletion, Pod, State};
use plan::{Plan, UserNamespaceMode};
use tokio::sync::{mpsc, watch};
use volumes::PodVolumes;
use wire::client::Client;

use crate::chores::Chores;
use crate::claim::{Claimed, Origin, claim};
use crate::cri::{Cri, Journal};
use crate::error::{Error, Result};
use crate::events::Bells;
use crate::handle::{Handle, Orders};
use crate::logs::{LogRotation, Rotator};
use crate::look::Looker;
use crate::requests::Watch;
use crate::shared::{Shared, Tell, blocking};
use crate::source::Objects;
use crate::store::{Place, PodRecord, Stored};
use crate::tended::Tended;
use crate::ward::{Admitted, Ward};
use crate::worker::{Answers, Worker};
use crate::{mounts, refused, spec, teardown};

/// The lease that pods in the shared block have joined.
const SHARED_BLOCK: &str = "shared-block";

/// What an agent is opened with.
pub struct Options {
    /// Where everything of ours is kept; it exists.
    pub state: PathBuf,
    /// The runtime.
    pub client: Client,
    /// Where it listens, for those who come later.
    pub endpoint: String,
    /// Who leases host IDs.
    pub ledger: Arc<Ledger>,
    /// Who mounts.
    pub kernel: Arc<dyn kernel::Kernel>,
    /// The objects that pods name.
    pub objects: Objects,
    /// The node's numbers.
    pub settings: lifecycle::Settings,
    /// When containers' logs are rotated.
    pub logs: LogRotation,
    /// The node's name.
    pub node: String,
    /// The node's address.
    pub host_ip: String,
    /// Is told what happens.
    pub tell: Tell,
    /// Is told what the runtime is asked for.
    pub journal: Option<Journal>,
}

/// Looks after pods. Clones look after the same.
#[derive(Clone)]
pub struct Agent {
    shared: Arc<Shared>,
}

impl Agent {
    /// Ready to take pods on. Needs a tokio runtime.
    ///
    /// # Errors
    /// If the state directory cannot be used.
    pub fn open(options: Options) -> Result<Self> {
        let state = std::path::absolute(&options.state).map_err(Error::file("find", &options.state))?;
        let bells = Arc::new(Bells::default());
        let shared = Shared {
            volumes: PodVolumes::open(&state, options.kernel)?,
            state,
            endpoint: options.endpoint,
            cri: Cri { client: options.client.clone(), journal: options.journal },
            ledger: options.ledger,
            objects: options.objects,
            bells: Arc::clone(&bells),
            settings: options.settings,
            logs: options.logs,
            node: options.node,
            host_ip: options.host_ip,
            tell: options.tell,
        };
        tokio::spawn(Bells::listen(Arc::downgrade(&bells), options.client));
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Takes a pod on: one that runs already by the same definition is looked after from here on.
    ///
    /// # Errors
    /// If somebody else looks after it, or its IDs or volumes cannot be had; nothing is left of it then.
    pub async fn start(&self, admitted: Admitted) -> Result<Handle> {
        let spec = admitted.pod.spec.clone().unwrap_or_default();
        refused::check(&admitted.pod, &self.shared.node)?;
        let pod = spec::lowered(&spec)?;
        let Claimed { place, tended, record, origin } = self.claim(&admitted).await?;
        let ward = self.ward(&record, Some(admitted.plan));
        let title = ward.title();
        if origin == Origin::Left {
            self.shared.say(&title, "found as it was left; looked after again");
        }
        match self.prepare(ward, record, &place).await {
            Ok(ward) => Ok(self.tend(ward, (place, tended), pod)),
            Err(error) => {
                if origin == Origin::New
                    && let Err(left) = teardown::all(&self.shared, &place).await
                {
                    self.shared.warn(&title, format!("something is left of it: {left}"));
                }
                Err(error)
            }
        }
    }

    /// What was being ended when its process was killed is ended first: it was not meant to go on.
    async fn claim(&self, admitted: &Admitted) -> Result<Claimed> {
        loop {
            let (shared, wanted) = (Arc::clone(&self.shared), admitted.clone());
            let claim = move || claim(&shared.state, &shared.endpoint, &wanted);
            let claimed = blocking("claiming a pod", claim).await?;
            let Some(request) = claimed.place.stop_request() else { return Ok(claimed) };
            let ward = self.ward(&claimed.record, None);
            self.shared
                .say(&ward.title(), "was being ended when it was left; ended before it is started anew");
            let grace = request.grace.map(Duration::from_secs);
            let pod = spec::lowered(&ward.spec)?.deleted(Deletion { grace });
            self.tend(ward, (claimed.place, claimed.tended), pod).remove().await?;
        }
    }

    /// Takes on a pod that somebody else has left, and ends it, within `grace` if that is less than its own.
    /// Nothing of it is started again.
    ///
    /// # Errors
    /// If somebody looks after it.
    pub async fn end(&self, stored: &Stored, grace: Option<Duration>) -> Result<Handle> {
        let record = &stored.record;
        let place = Place::new(&self.shared.state, &record.uid, (&record.namespace, &record.name));
        let title = format!("{}/{}", record.namespace, record.name);
        let tended = place.take()?.ok_or(Error::Tended { pod: title })?;
        let ward = self.ward(record, None);
        // Before the worker's first step: it knows neither the pod's block nor its plan.
        let pod = spec::lowered(&ward.spec)?.deleted(Deletion { grace });
        Ok(self.tend(ward, (place, tended), pod))
    }

    fn ward(&self, record: &PodRecord, plan: Option<Plan>) -> Ward {
        Ward {
            uid: record.uid.clone(),
            name: record.name.clone(),
            namespace: record.namespace.clone(),
            spec: record.pod.spec.clone().unwrap_or_default(),
            pod: record.pod.clone(),
            plan,
            users: UserNamespace::Host,
            level: None,
            handler: record.handler.clone(),
            node: self.shared.node.clone(),
            profiles: self.shared.state.join("seccomp"),
        }
    }

    /// IDs, then volumes: whatever is cut short is found by its record.
    async fn prepare(&self, mut ward: Ward, mut record: PodRecord, place: &Place) -> Result<Ward> {
        let (shared, place) = (Arc::clone(&self.shared), place.clone());
        blocking("getting a pod ready", move || {
            lease(&shared, &mut ward, &place.dir)?;
            let uids = ward.users.lines(IdKind::Uid).unwrap_or_default();
            let gids = ward.users.lines(IdKind::Gid).unwrap_or_default();
            // What may still run has the block that was written down, and no other.
            if !record.uids.is_empty() && (&record.uids, &record.gids) != (&uids, &gids) {
                return Err(Error::OtherBlock { pod: ward.title() });
            }
            record.mode = mode(&ward).to_owned();
            (record.uids, record.gids) = (uids, gids);
            place.write_record(&record)?;
            let wanted = mounts::wanted(&ward, &shared.objects)?;
            if !wanted.volumes.is_empty() {
                for notice in shared.volumes.set_up(&wanted)? {
                    shared.say(&ward.title(), format!("volume {}: {}", notice.volume, notice.text));
                }
            }
            Ok(ward)
        })
        .await
    }

    fn tend(&self, ward: Ward, (place, tended): (Place, Tended), pod: Pod) -> Handle {
        let settings = self.shared.settings;
        let before = place.read_status();
        let state = before
            .as_ref()
            .map_or_else(|| State::new(settings), |status| State::resumed(settings, &status.resumed()));
        let (orders, inbox) = mpsc::channel(16);
        let (status, said) = watch::channel(before);
        let (ending, ends) = watch::channel(false);
        let (writing, running) = watch::channel(Vec::new());
        let (shared, title, logs) = (Arc::clone(&self.shared), ward.title(), place.logs.clone());
        tokio::spawn(Rotator { shared, title, logs, running }.run());
        let uid = ward.uid.as_str().to_owned();
        let ward = Arc::new(ward);
        let worker = Worker {
            pod,
            state,
            looker: Looker::new(&uid, &place.dir, &place.logs),
            orders: inbox,
            status,
            bell: self.shared.bells.of(&uid),
            watch: Watch::on(&place.dir).ok(),
            tended,
            answers: Answers::default(),
            ending,
            writing,
            chores: Chores {
                shared: Arc::clone(&self.shared),
                ward: Arc::clone(&ward),
                place: place.clone(),
                ending: ends,
            },
        };
        let task = tokio::spawn(worker.run());
        Handle {
            shared: Arc::clone(&self.shared),
            ward,
            place,
            orders: Orders(orders),
            said,
            task: Some(task),
            tended: None,
        }
    }
}

fn mode(ward: &Ward) -> &'static str {
    match ward.plan.as_ref().map(|plan| plan.user_namespace.mode) {
        Some(UserNamespaceMode::Own) => "own",
        Some(UserNamespaceMode::Shared) => "shared",
        _ => "host",
    }
}

/// Gives the pod its block: on disk before anything is made with it.
fn lease(shared: &Shared, ward: &mut Ward, dir: &Path) -> Result<()> {
    let Some(plan) = &ward.plan else { return Ok(()) };
    let holder = |name: &str| Holder::new(name).map_err(|e| Error::config("metadata.uid", e.to_string()));
    let request = LeaseRequest {
        length: plan.user_namespace.length,
        places: vec![dir.to_owned()],
        categories: if plan.lease_categories { Categories::Pair } else { Categories::None },
        ..LeaseRequest::new(holder(ward.uid.as_str())?)
    };
    let lease = match plan.user_namespace.mode {
        UserNamespaceMode::Host => return Ok(()),
        UserNamespaceMode::Own => shared.ledger.lease(request)?,
        UserNamespaceMode::Shared => shared.ledger.join(holder(SHARED_BLOCK)?, request)?,
    };
    ward.users = lease.user_namespace();
    ward.level = lease.categories.map(|pair| format!("s0:{pair}"));
    shared.say(&ward.title(), format!("host IDs {}", lease.uids));
    Ok(())
}
