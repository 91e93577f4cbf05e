use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use durable::{Guard, Lock};

use crate::bridge::{self, Bridge};
use crate::cni::Cni;
use crate::error::{Error, Result};
use crate::firewall::{Connection, Firewall};
use crate::lease::Book;
use crate::pod::{Addresses, Interface, Pod, check_id};
use crate::settings::{self, Kind, Settings};
use crate::subnet::Subnets;
use crate::thread::{Netns, apart};
use crate::turns::Turns;

/// How long another process may take to release the lock of the state.
const PATIENCE: Duration = Duration::from_secs(1);

/// The network of this node's pods. Clones are the same network.
#[derive(Debug, Clone)]
pub struct Network {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// The network namespace with the bridge, the firewall and the plugins.
    host: Netns,
    kind: Kind,
    maker: RwLock<Maker>,
    /// CNI plugins that have run for pods are run again for DEL, whichever kind of network is configured now.
    cni: Cni,
    cidr: PathBuf,
    turns: Turns,
    notices: Mutex<Vec<String>>,
    /// Held for the life of the network.
    _lock: Guard,
}

#[derive(Debug)]
enum Maker {
    Bridge(Bridge),
    /// The bridge has no subnets yet. Pods of an earlier configuration are only torn down.
    Waiting {
        book: Book,
        /// Why the subnets that the cluster has assigned cannot be used.
        refused: Option<String>,
    },
    /// Pods of an earlier bridge configuration are only torn down.
    Other(Book),
}

impl Network {
    /// Prepares what all pods share, in the network namespace of the calling thread: the host's.
    pub async fn open(settings: Settings) -> Result<Self> {
        let host = Netns::of_this_thread()?;
        let open = move || {
            host.enter()?;
            Inner::open(settings, host)
        };
        Ok(Self { inner: Arc::new(apart(open).await?) })
    }

    /// What was changed on the host or found damaged since the last call, as text for the log.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.inner.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets up a pod's network, loopback included; idempotent. A failure leaves nothing, except what
    /// [`leases`](Self::leases) lists.
    pub async fn set_up(&self, pod: &Pod) -> Result<Addresses> {
        check_id(&pod.id)?;
        let mut pod = pod.clone();
        // In CRI, a host port of 0 is a port of the container alone.
        pod.host_ports.retain(|port| port.host_port != 0);
        self.at_host(move |inner| inner.set_up(&pod)).await
    }

    /// Tears down a pod's network. A pod without one, or a namespace that is gone, is no error.
    pub async fn tear_down(&self, id: &str, netns: Option<&Path>) -> Result<()> {
        check_id(id)?;
        let (id, netns) = (id.to_owned(), netns.map(Path::to_owned));
        self.at_host(move |inner| inner.tear_down(&id, netns.as_deref())).await
    }

    /// The sandboxes that have a lease or a CNI record.
    pub async fn leases(&self) -> Result<Vec<String>> {
        self.at_host(|inner| inner.leases()).await
    }

    /// Whether pods can get a network now; the reason, if not.
    pub async fn ready(&self) -> std::result::Result<(), String> {
        self.at_host(|inner| inner.ready()).await.map_err(|error| error.to_string())
    }

    /// Why a pod of the bridge could use another pod's addresses, if it could: pods run nevertheless, and the operator
    /// has to know. Checked again with each [`ready`](Self::ready).
    #[must_use]
    pub fn unguarded(&self) -> Option<String> {
        match &*self.inner.maker() {
            Maker::Bridge(bridge) => bridge.unguarded(),
            Maker::Waiting { .. } | Maker::Other(_) => None,
        }
    }

    /// The subnets that the cluster has assigned to this node (CRI `UpdateRuntimeConfig`). A configured subnet takes
    /// precedence.
    pub async fn set_pod_cidr(&self, cidr: &str) -> Result<()> {
        let cidr = cidr.trim().to_owned();
        // The kubelet sends an empty one while it has none.
        if cidr.is_empty() { Ok(()) } else { self.at_host(move |inner| inner.set_pod_cidr(&cidr)).await }
    }

    /// Switches on the loopback device of a network namespace.
    pub async fn loopback_up(&self, netns: &Path) -> Result<()> {
        let netns = netns.to_owned();
        apart(move || Netns::open(&netns)?.run(bridge::loopback_up)).await
    }

    /// The counters of each interface of a network namespace.
    pub async fn counters(&self, netns: &Path) -> Result<Vec<Interface>> {
        let netns = netns.to_owned();
        apart(move || Netns::open(&netns)?.run(bridge::counters)).await
    }

    async fn at_host<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        let inside = move || {
            inner.host.enter()?;
            work(&inner)
        };
        apart(inside).await
    }
}

impl Inner {
    fn open(settings: Settings, host: Netns) -> Result<Self> {
        settings.kind.check()?;
        let dir = settings.state.join("network");
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        made.map_err(Error::io("make", &dir))?;
        let lock = lock(&dir)?;
        let cidr = dir.join("pod-cidr");
        let (maker, notices) = Maker::open(&settings.kind, &dir, &cidr)?;
        let (cni, notices, maker) = (Cni::open(&dir)?, Mutex::new(notices), RwLock::new(maker));
        Ok(Self {
            host,
            kind: settings.kind,
            maker,
            cni,
            cidr,
            turns: Turns::default(),
            notices,
            _lock: lock,
        })
    }

    fn set_up(&self, pod: &Pod) -> Result<Addresses> {
        let _turn = self.turns.take(&pod.id);
        Netns::open(&pod.netns)?.run(bridge::loopback_up)?;
        match (&*self.maker(), &self.kind) {
            (Maker::Bridge(bridge), _) => bridge.set_up(pod),
            (Maker::Waiting { refused, .. }, _) => Err(Error::NoPodCidr { refused: refused.clone() }),
            (Maker::Other(_), Kind::Cni { conf_dir, bin_dirs }) => self.cni.set_up(pod, conf_dir, bin_dirs),
            (Maker::Other(_), _) => Ok(Addresses::default()),
        }
    }

    fn tear_down(&self, id: &str, netns: Option<&Path>) -> Result<()> {
        let _turn = self.turns.take(id);
        self.cni.tear_down(id, netns)?;
        match &*self.maker() {
            Maker::Bridge(bridge) => bridge.tear_down(id),
            Maker::Waiting { book, .. } | Maker::Other(book) => bridge::forget(book, id),
        }
    }

    fn leases(&self) -> Result<Vec<String>> {
        let mut all = match &*self.maker() {
            Maker::Bridge(bridge) => bridge.sandboxes(),
            Maker::Waiting { book, .. } | Maker::Other(book) => {
                book.records().into_iter().map(|record| record.sandbox).collect()
            }
        };
        all.extend(self.cni.sandboxes()?);
        all.sort();
        all.dedup();
        Ok(all)
    }

    fn ready(&self) -> Result<()> {
        match (&*self.maker(), &self.kind) {
            (Maker::Bridge(bridge), _) => bridge.ready(),
            (Maker::Waiting { refused, .. }, _) => Err(Error::NoPodCidr { refused: refused.clone() }),
            (Maker::Other(_), Kind::Cni { conf_dir, bin_dirs }) => Cni::ready(conf_dir, bin_dirs),
            (Maker::Other(_), _) => Ok(()),
        }
    }

    fn set_pod_cidr(&self, cidr: &str) -> Result<()> {
        if matches!(&*self.maker(), Maker::Waiting { .. }) {
            return self.begin_with(cidr);
        }
        let maker = self.maker();
        let Maker::Bridge(bridge) = &*maker else { return Ok(()) };
        let wanted: Subnets = cidr.parse()?;
        let words = if matches!(self.kind, Kind::Bridge { subnets: Some(_), .. }) {
            let kept = bridge.subnets();
            let differs = kept != wanted;
            differs
                .then(|| format!("pods have addresses of {kept} as set, not of the cluster's {wanted}"))
                .into_iter()
                .collect()
        } else {
            let words = bridge.turn_to(wanted)?;
            durable::write(&self.cidr, cidr.as_bytes())?;
            words
        };
        self.note(words);
        Ok(())
    }

    /// Makes the bridge with the first subnets that the cluster assigns.
    fn begin_with(&self, cidr: &str) -> Result<()> {
        let mut maker = self.maker.write().unwrap_or_else(PoisonError::into_inner);
        // Another call may have made it.
        let Maker::Waiting { refused, .. } = &mut *maker else { return Ok(()) };
        let dir = self.cidr.parent().unwrap_or(Path::new("/"));
        let made = cidr.parse().and_then(|subnets| Maker::with_subnets(&self.kind, dir, subnets));
        match made.and_then(|made| Ok(durable::write(&self.cidr, cidr.as_bytes()).map(|()| made)?)) {
            Ok((made, words)) => {
                *maker = made;
                self.note(words);
                Ok(())
            }
            Err(error) => {
                *refused = Some(error.to_string());
                Err(error)
            }
        }
    }

    fn note(&self, words: Vec<String>) {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).extend(words);
    }

    fn maker(&self) -> RwLockReadGuard<'_, Maker> {
        self.maker.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Maker {
    fn open(kind: &Kind, dir: &Path, cidr: &Path) -> Result<(Self, Vec<String>)> {
        let told = || fs::read_to_string(cidr).ok().and_then(|text| text.parse().ok());
        match kind {
            Kind::Bridge { name, subnets, mtu } => {
                let wanted = bridge::Wanted { name: name.clone(), subnets: subnets.or_else(told), mtu: *mtu };
                let (bridge, words) = Bridge::open(wanted, dir)?;
                Ok((Self::Bridge(bridge), words))
            }
            Kind::ClusterBridge { .. } => {
                let made = told().map(|subnets| Self::with_subnets(kind, dir, subnets));
                // A node whose subnets cannot be used any more still runs pods in the host's network.
                match made {
                    Some(Ok(made)) => Ok(made),
                    refused => Self::waiting(dir, refused.and_then(Result::err)),
                }
            }
            Kind::Cni { .. } | Kind::None => {
                let (book, words) = Book::open(dir, Subnets::DEFAULT)?;
                Ok((Self::Other(book), words))
            }
        }
    }

    fn with_subnets(kind: &Kind, dir: &Path, subnets: Subnets) -> Result<(Self, Vec<String>)> {
        let (name, mtu) = match kind {
            Kind::ClusterBridge { name, mtu } => (name.clone(), *mtu),
            _ => (settings::BRIDGE.to_owned(), None),
        };
        let (bridge, words) = Bridge::open(bridge::Wanted { name, subnets: Some(subnets), mtu }, dir)?;
        Ok((Self::Bridge(bridge), words))
    }

    fn waiting(dir: &Path, refused: Option<Error>) -> Result<(Self, Vec<String>)> {
        let (book, words) = Book::open(dir, Subnets::DEFAULT)?;
        Ok((Self::Waiting { book, refused: refused.map(|error| error.to_string()) }, words))
    }
}

/// Whether this kernel can keep pods of a bridge from using each other's addresses. The rules are tried in an unused
/// network namespace, and end with it.
///
/// # Errors
/// If they cannot, with what the kernel says.
pub fn try_guard(netns: &Path) -> Result<()> {
    let rules = Firewall { bridge: settings::BRIDGE.to_owned(), subnets: vec![] };
    Netns::open(netns)?.run(|| rules.install_own(&Connection::default(), &[]))
}

/// Takes the lock of the state. A process that was killed may have been about to start a program, which holds the lock
/// until it begins; the patience covers that.
fn lock(dir: &Path) -> Result<Guard> {
    Lock::at(dir.join("lock")).acquire(PATIENCE).map_err(|error| match error {
        durable::Error::Locked { .. } => Error::Locked { path: dir.to_owned() },
        error => error.into(),
    })
}
