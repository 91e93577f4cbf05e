//! The watch of all trust bundles of the cluster. It begins when the first pod names one: most nodes have no such pod.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use agent::Error;
use agent::ports::TrustBundles;
use kube::{Api, Client, Resource as _};
use kube_runtime::watcher::{Config, Event};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tracing::warn;

use super::certificates;
use super::selection::{Bundle, select};
use crate::follow::{Followed, follow};
use crate::raw::{RawObject, certificates_v1};

/// How long a caller waits for the first list.
const FIRST_SYNC: Duration = Duration::from_secs(1);
/// The server ends a watch after so many seconds, and a new one is begun.
const WATCH_SECONDS: u32 = 290;

/// The trust bundles of the cluster. They stay as they were while the API server cannot be reached.
pub(crate) struct TrustBundleWatch {
    client: Client,
    handle: Handle,
    shared: Arc<Shared>,
    task: OnceLock<AbortHandle>,
}

struct Shared {
    state: Mutex<State>,
    synced: Condvar,
    changed: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    /// By name; `None` until they were listed once.
    listed: Option<BTreeMap<String, Bundle>>,
    /// The bundles of a list that is not complete.
    list: BTreeMap<String, Bundle>,
    /// Why the last attempt to list them failed.
    failure: Option<String>,
}

impl TrustBundleWatch {
    /// Watches nothing yet. `changed` is called after each change of a bundle. Must be called within a tokio runtime.
    pub(crate) fn new(client: Client, changed: impl Fn() + Send + Sync + 'static) -> Self {
        let shared = Shared { state: Mutex::default(), synced: Condvar::new(), changed: Box::new(changed) };
        Self { client, handle: Handle::current(), shared: Arc::new(shared), task: OnceLock::new() }
    }

    /// The certificates of the selected bundles as PEM; `None` if no bundle is selected. Waits a moment for the first list.
    pub(crate) fn get(&self, selected: &TrustBundles) -> agent::Result<Option<String>> {
        self.task.get_or_init(|| self.start());
        let is_unlisted = |state: &mut State| state.listed.is_none() && state.failure.is_none();
        let waited = self.shared.synced.wait_timeout_while(self.shared.state(), FIRST_SYNC, is_unlisted);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &state.listed {
            Some(bundles) => Ok(select(bundles, selected)),
            None => {
                let cause = state.failure.clone().unwrap_or_else(|| "there is no answer yet".to_owned());
                let cause = format!("trust bundles could not be read from the API server yet: {cause}");
                Err(Error::TrustBundles { bundles: selected.to_string(), cause })
            }
        }
    }

    fn start(&self) -> AbortHandle {
        let resource = certificates_v1("ClusterTrustBundle", "clustertrustbundles");
        let api = Api::<RawObject>::all_with(self.client.clone(), &resource);
        let config = Config::default().timeout(WATCH_SECONDS);
        let shared = Arc::clone(&self.shared);
        let task = self.handle.spawn(async move {
            follow(api, config, "trust bundles", |followed| {
                let mut state = shared.state();
                let is_changed = match followed {
                    Followed::Failed(failure) => {
                        state.failure = Some(failure.cause);
                        false
                    }
                    Followed::Event(event) => state.apply(event),
                };
                drop(state);
                shared.synced.notify_all();
                if is_changed {
                    (shared.changed)();
                }
                ControlFlow::Continue(())
            })
            .await;
        });
        task.abort_handle()
    }
}

impl Drop for TrustBundleWatch {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Applies an event. Returns whether the bundles have changed.
    fn apply(&mut self, event: &Event<RawObject>) -> bool {
        match event {
            Event::Init => {
                self.list.clear();
                false
            }
            Event::InitApply(raw) => {
                set(&mut self.list, raw);
                false
            }
            Event::InitDone => {
                let list = Some(std::mem::take(&mut self.list));
                let is_changed = self.listed != list;
                self.listed = list;
                is_changed
            }
            Event::Apply(raw) => set(self.listed.get_or_insert_default(), raw),
            Event::Delete(raw) => self.listed.get_or_insert_default().remove(raw.name()).is_some(),
        }
    }
}

/// Sets a bundle. One that cannot be read is as good as none. Returns whether it has changed.
fn set(bundles: &mut BTreeMap<String, Bundle>, raw: &RawObject) -> bool {
    let text = |name: &str| raw.field("spec").get(name).and_then(|value| value.as_str()).unwrap_or_default();
    match certificates(text("trustBundle")) {
        Ok(certificates) => {
            let labels = raw.meta().labels.clone().unwrap_or_default();
            let bundle = Bundle { signer: text("signerName").to_owned(), labels, certificates };
            bundles.insert(raw.name().to_owned(), bundle.clone()) != Some(bundle)
        }
        Err(cause) => {
            warn!("ClusterTrustBundle {} is not used: spec.trustBundle: {cause}", raw.name());
            bundles.remove(raw.name()).is_some()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::trust_bundles::pem;

    fn raw(name: &str, text: &str) -> RawObject {
        let object = json!({"metadata": {"name": name}, "spec": {"trustBundle": text}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn bundles_are_known_from_the_first_complete_list_and_changes_are_told() {
        let mut state = State::default();
        let roots = pem([[1_u8].as_slice()]);
        assert!(!state.apply(&Event::Init) && !state.apply(&Event::InitApply(raw("a", &roots))));
        assert!(state.listed.is_none(), "the list is not complete");
        assert!(state.apply(&Event::InitDone));
        assert!(!state.apply(&Event::Apply(raw("a", &format!("# again\n{roots}")))), "the same certificates");
        assert!(state.apply(&Event::Apply(raw("a", &pem([[2_u8].as_slice()])))));
        assert!(state.apply(&Event::Apply(raw("b", &roots))));
        // What is known stays while they are listed again.
        state.apply(&Event::Init);
        assert_eq!(state.listed.as_ref().map(BTreeMap::len), Some(2));
        state.apply(&Event::InitApply(raw("b", &roots)));
        assert!(state.apply(&Event::InitDone));
        assert!(
            state.apply(&Event::Delete(raw("b", &roots))) && !state.apply(&Event::Delete(raw("b", &roots)))
        );
        assert_eq!(state.listed, Some(BTreeMap::new()));
        let damaged = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        assert!(!state.apply(&Event::Apply(raw("c", damaged))), "a damaged one is none");
    }
}
