//! Plugins that are registered by a socket in the directory `plugins_registry` of the kubelet's root directory.
//!
//! The node asks at each socket which type of plugin it is of, and tells the plugin whether it is registered. A socket that is
//! removed, or replaced by another one, ends the registration. Which types there are is the caller's: [`Handlers`]. Plugins of
//! other types are notified of nothing: a CSI driver's registrar that is refused ends, and waits for a kubelet otherwise.

mod scan;
mod socket;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::manager::{DeviceManager, PluginKey};
use crate::registration::{check_name, check_version};
use scan::{Stamp, sockets};

/// How often the directory is read, as a kubelet acts on what it has seen there.
const PERIOD: Duration = Duration::from_secs(1);
/// The pause before a plugin that is not registered is asked again; it doubles each time, as a kubelet's.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_mins(2);

/// The type of device plugins.
pub const DEVICE_PLUGIN: &str = "DevicePlugin";

/// A future that a handler returns: the number of the registration, or why there is none.
pub type Registering<'a> = Pin<Box<dyn Future<Output = Result<u64, String>> + Send + 'a>>;

/// A plugin as it has described itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Its name: of a device plugin, the resource.
    pub name: String,
    /// The socket on which it is called.
    pub endpoint: PathBuf,
    /// The versions of its protocol that it speaks.
    pub versions: Vec<String>,
}

/// Registers the plugins of one type.
pub trait Handler: Send + Sync {
    /// Registers a plugin. The error says why not, for the plugin's author. The number tells this registration from others
    /// of the same plugin.
    fn register<'a>(&'a self, plugin: &'a Plugin) -> Registering<'a>;

    /// Ends the registration with this number of a plugin whose socket is gone.
    fn deregister(&self, plugin: &Plugin, registration: u64);
}

/// Handlers by the type of their plugins.
pub type Handlers = BTreeMap<&'static str, Arc<dyn Handler>>;

impl Handler for DeviceManager {
    fn register<'a>(&'a self, plugin: &'a Plugin) -> Registering<'a> {
        Box::pin(async move {
            check_version(&plugin.versions)?;
            check_name(&plugin.name)?;
            self.connect(&plugin.name, &plugin.endpoint).await
        })
    }

    fn deregister(&self, plugin: &Plugin, registration: u64) {
        let (resource, socket) = (plugin.name.clone(), plugin.endpoint.clone());
        self.disconnect(&PluginKey { resource, socket }, registration);
    }
}

/// What is known of a socket.
#[derive(Debug)]
struct Known {
    stamp: Stamp,
    state: State,
}

#[derive(Debug)]
enum State {
    /// A task asks it. `before` is why its plugin was not registered before.
    Asking { pause: Duration, before: Option<String> },
    /// Its plugin is registered.
    Registered(Registered),
    /// Its plugin is of a type without a handler.
    Ignored,
    /// Its plugin is not registered, and is asked again.
    Waiting { until: Instant, pause: Duration, cause: String },
}

/// What asking at a socket came to.
struct Asked {
    socket: PathBuf,
    stamp: Stamp,
    outcome: Result<Answer, String>,
}

/// What was found at a socket.
#[derive(Debug)]
enum Answer {
    Registered(Registered),
    /// A plugin of a type without a handler.
    Other {
        kind: String,
        name: String,
    },
}

/// A plugin that is registered.
#[derive(Debug)]
struct Registered {
    kind: &'static str,
    plugin: Plugin,
    registration: u64,
}

/// Registers the plugins of a directory for as long as the future is polled. The directory must exist.
pub async fn watch(dir: PathBuf, handlers: Handlers) {
    let mut watcher = Watcher { dir, handlers, known: HashMap::new(), asking: JoinSet::new() };
    let mut turns = tokio::time::interval(PERIOD);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = turns.tick() => watcher.turn().await,
            Some(asked) = watcher.asking.join_next() => watcher.note(asked),
        }
    }
}

struct Watcher {
    dir: PathBuf,
    handlers: Handlers,
    known: HashMap<PathBuf, Known>,
    asking: JoinSet<Asked>,
}

impl Watcher {
    /// Compares the sockets that are there with those that are known.
    async fn turn(&mut self) {
        let dir = self.dir.clone();
        let Ok(found) = tokio::task::spawn_blocking(move || sockets(&dir)).await else { return };
        let is_gone = |(socket, known): &(&PathBuf, &Known)| found.get(*socket) != Some(&known.stamp);
        let gone: Vec<PathBuf> =
            self.known.iter().filter(is_gone).map(|(socket, _)| socket.clone()).collect();
        for socket in gone {
            if let Some(Known { state: State::Registered(registered), .. }) = self.known.remove(&socket) {
                info!("the socket of {} {} is gone", registered.kind, registered.plugin.name);
                self.deregister(&registered);
            }
        }
        for (socket, stamp) in found {
            let state = match self.known.get(&socket).map(|known| &known.state) {
                None => State::Asking { pause: PAUSE, before: None },
                Some(State::Waiting { until, pause, cause }) if *until <= Instant::now() => {
                    let pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                    State::Asking { pause, before: Some(cause.clone()) }
                }
                Some(_) => continue,
            };
            self.known.insert(socket.clone(), Known { stamp, state });
            let handlers = self.handlers.clone();
            self.asking.spawn(async move {
                let outcome = socket::register(&socket, &handlers).await;
                Asked { socket, stamp, outcome }
            });
        }
    }

    /// Notes what asking at a socket came to.
    fn note(&mut self, asked: Result<Asked, JoinError>) {
        let Ok(Asked { socket, stamp, outcome }) = asked else { return };
        let known = self.known.get_mut(&socket).filter(|known| known.stamp == stamp);
        match (known, outcome) {
            (Some(known), Ok(Answer::Registered(registered))) => {
                info!("{} {} is registered", registered.kind, registered.plugin.name);
                known.state = State::Registered(registered);
            }
            (Some(known), Ok(Answer::Other { kind, name })) => {
                info!(
                    "the plugin {name:?} at {} is left alone: its type {kind:?} is not supported",
                    socket.display()
                );
                known.state = State::Ignored;
            }
            (Some(known), Err(cause)) => {
                let State::Asking { pause, before } = &known.state else { return };
                let pause = *pause;
                if before.as_ref() != Some(&cause) {
                    warn!("the plugin at {} is not registered: {cause}; it is asked again", socket.display());
                }
                known.state = State::Waiting { until: Instant::now() + pause, pause, cause };
            }
            // Its socket has gone meanwhile.
            (None, Ok(Answer::Registered(registered))) => self.deregister(&registered),
            (None, Ok(Answer::Other { .. }) | Err(_)) => {}
        }
    }

    fn deregister(&self, registered: &Registered) {
        if let Some(handler) = self.handlers.get(registered.kind) {
            handler.deregister(&registered.plugin, registered.registration);
        }
    }
}

/// The directory, where a caller has none yet.
#[must_use]
pub fn registry_of(root: &Path) -> PathBuf {
    root.join("plugins_registry")
}
