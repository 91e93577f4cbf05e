//! All pods of one process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ids::{IdKind, UserNamespace};
use ledger::{Categories, Holder, LeaseRequest, Ledger};
use lifecycle::State;
use plan::UserNamespaceMode;
use tokio::sync::{mpsc, watch};
use volumes::{PodUid, PodVolumes};
use wire::client::Client;

use crate::chores::Chores;
use crate::cri::{Cri, Journal};
use crate::error::{Error, Result};
use crate::events::Bells;
use crate::handle::Handle;
use crate::look::Looker;
use crate::requests::Watch;
use crate::shared::{Shared, Tell, blocking};
use crate::source::Objects;
use crate::store::{Parts, Place, PodRecord, Stored, Tended, stored};
use crate::ward::{Admitted, Ward, hash};
use crate::worker::{Answers, Worker};
use crate::{mounts, refused, spec, teardown};

/// The lease that pods in the shared block have joined.
const SHARED_BLOCK: &str = "shared-block";
const UUID: &str = "/proc/sys/kernel/random/uuid";

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
        refused::check(&spec)?;
        spec::lowered(&spec)?;
        let (uid, place, tended, is_new) = self.find(&admitted).await?;
        let ward = self.ward(&admitted, uid);
        let title = ward.title();
        match self.prepare(ward, &admitted, &place).await {
            Ok(ward) => self.tend(ward, place, tended),
            Err(error) => {
                let uid = admitted.pod.metadata.uid.as_deref();
                if is_new && let Err(left) = teardown::all(&self.shared, (uid, &place)).await {
                    self.shared.warn(&title, format!("something is left of it: {left}"));
                }
                Err(error)
            }
        }
    }

    /// Takes on a pod that somebody else has left, to end it.
    ///
    /// # Errors
    /// If somebody looks after it.
    pub async fn adopt(&self, stored: &Stored) -> Result<Handle> {
        let record = &stored.record;
        let place = Place::new(&self.shared.state, &record.uid, (&record.namespace, &record.name));
        let title = format!("{}/{}", record.namespace, record.name);
        let tended = place.take()?.ok_or(Error::Tended { pod: title })?;
        let ward = Ward {
            uid: record.uid.clone(),
            name: record.name.clone(),
            namespace: record.namespace.clone(),
            spec: record.pod.spec.clone().unwrap_or_default(),
            pod: record.pod.clone(),
            plan: None,
            users: UserNamespace::Host,
            level: None,
            handler: record.handler.clone(),
            node: self.shared.node.clone(),
        };
        self.tend(ward, place, tended)
    }

    /// The pod that runs by this name, or a place for it.
    async fn find(&self, admitted: &Admitted) -> Result<(PodUid, Place, Tended, bool)> {
        let metadata = &admitted.pod.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        let namespace = metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let title = format!("{namespace}/{name}");
        let wanted = format!("{:016x}", definition(admitted));
        let state = self.shared.state.clone();
        let (known, _) = blocking("reading records", move || stored(&state)).await?;
        let same = known.into_iter().find(|s| s.record.namespace == namespace && s.record.name == name);
        if let Some(known) = same {
            if known.is_tended {
                return Err(Error::Tended { pod: title });
            }
            if known.record.hash != wanted || known.record.endpoint != self.shared.endpoint {
                return Err(Error::Other { pod: title });
            }
            let uid = known.record.uid;
            let place = Place::new(&self.shared.state, &uid, (&namespace, &name));
            let tended = place.take()?.ok_or(Error::Tended { pod: title.clone() })?;
            self.shared.say(&title, "found as it was left; looked after again");
            return Ok((uid, place, tended, false));
        }
        let uid = uid(metadata.uid.as_deref())?;
        let place = Place::new(&self.shared.state, &uid, (&namespace, &name));
        let tended = place.take()?.ok_or(Error::Tended { pod: title })?;
        Ok((uid, place, tended, true))
    }

    fn ward(&self, admitted: &Admitted, uid: PodUid) -> Ward {
        let mut pod = admitted.pod.clone();
        pod.metadata.uid = Some(uid.as_str().to_owned());
        let metadata = &pod.metadata;
        Ward {
            uid,
            name: metadata.name.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            spec: pod.spec.clone().unwrap_or_default(),
            plan: Some(admitted.plan.clone()),
            users: UserNamespace::Host,
            level: None,
            handler: admitted.intent.runtime_handler.clone(),
            node: self.shared.node.clone(),
            pod,
        }
    }

    /// Record, then IDs, then volumes: whatever is cut short is found by its record.
    async fn prepare(&self, mut ward: Ward, admitted: &Admitted, place: &Place) -> Result<Ward> {
        let mut record = PodRecord::new(Parts {
            uid: ward.uid.clone(),
            namespace: ward.namespace.clone(),
            name: ward.name.clone(),
            hash: definition(admitted),
            endpoint: self.shared.endpoint.clone(),
            handler: ward.handler.clone(),
            pod: ward.pod.clone(),
        });
        let (shared, place) = (Arc::clone(&self.shared), place.clone());
        blocking("getting a pod ready", move || {
            place.write_record(&record)?;
            lease(&shared, &mut ward, &place.dir)?;
            record.mode = mode(&ward).to_owned();
            record.uids = ward.users.lines(IdKind::Uid).unwrap_or_default();
            record.gids = ward.users.lines(IdKind::Gid).unwrap_or_default();
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

    fn tend(&self, ward: Ward, place: Place, tended: Tended) -> Result<Handle> {
        let pod = spec::lowered(&ward.spec)?;
        let settings = self.shared.settings;
        let before = place.read_status();
        let state = before
            .as_ref()
            .map_or_else(|| State::new(settings), |status| State::resumed(settings, &status.resumed()));
        let (orders, inbox) = mpsc::channel(16);
        let (status, said) = watch::channel(before);
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
            chores: Chores {
                shared: Arc::clone(&self.shared),
                ward: Arc::clone(&ward),
                place: place.clone(),
            },
        };
        let task = tokio::spawn(worker.run());
        Ok(Handle {
            shared: Arc::clone(&self.shared),
            ward,
            place,
            orders,
            said,
            task: Some(task),
            tended: None,
        })
    }
}

/// Another number for anything that a pod cannot be changed in while it runs.
fn definition(admitted: &Admitted) -> u64 {
    let metadata = &admitted.pod.metadata;
    let mode = admitted.plan.user_namespace;
    hash(&(&admitted.pod.spec, &metadata.labels, &metadata.annotations, mode))
}

fn mode(ward: &Ward) -> &'static str {
    match ward.plan.as_ref().map(|plan| plan.user_namespace.mode) {
        Some(UserNamespaceMode::Own) => "own",
        Some(UserNamespaceMode::Shared) => "shared",
        _ => "host",
    }
}

fn uid(given: Option<&str>) -> Result<PodUid> {
    let text = match given.filter(|uid| !uid.is_empty()) {
        Some(given) => given.to_owned(),
        None => std::fs::read_to_string(UUID).map_err(Error::file("read", Path::new(UUID)))?,
    };
    PodUid::new(text.trim()).map_err(|e| Error::config("metadata.uid", e.to_string()))
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
