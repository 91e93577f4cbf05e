//! The watch of the services of all namespaces.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::Error;
use agent::ports::ServiceLinks;
use kube::{Api, Client};
use kube_runtime::watcher::{Config, Event};
use tokio::task::AbortHandle;

use super::variables::{Service, ServiceKey, variables};
use crate::follow::{Followed, follow};
use crate::raw::{RawObject, core};

/// How long a caller waits for the first list.
const FIRST_SYNC: Duration = Duration::from_secs(1);
/// The server ends a watch after so many seconds, and a new one is begun.
const WATCH_SECONDS: u32 = 290;
/// Services without an address have no variables.
const WITH_ADDRESS: &str = "spec.clusterIP!=None";

/// The services of the cluster. They stay as they were while the API server cannot be reached.
pub(crate) struct Services {
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    synced: Condvar,
}

#[derive(Default)]
struct State {
    /// `None` until they were listed once.
    listed: Option<BTreeMap<ServiceKey, Service>>,
    /// The services of a list that is not complete.
    list: BTreeMap<ServiceKey, Service>,
    /// Why the last attempt to list them failed.
    failure: Option<String>,
}

impl Services {
    /// Begins to watch. Must be called within a tokio runtime.
    pub(crate) fn start(client: Client) -> Self {
        let api = Api::<RawObject>::all_with(client, &core("Service", "services"));
        let config = Config::default().fields(WITH_ADDRESS).timeout(WATCH_SECONDS);
        let shared = Arc::new(Shared::default());
        let inside = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            follow(api, config, "services", |followed| {
                let mut state = inside.state();
                match followed {
                    Followed::Failed(failure) => state.failure = Some(failure.cause),
                    Followed::Event(event) => state.apply(event),
                }
                drop(state);
                inside.synced.notify_all();
                ControlFlow::Continue(())
            })
            .await;
        });
        Self { shared, task: task.abort_handle() }
    }

    /// The variables of a pod in this namespace. Waits a moment for the first list.
    pub(crate) fn variables(
        &self,
        namespace: &str,
        links: ServiceLinks,
    ) -> agent::Result<BTreeMap<String, String>> {
        let is_unlisted = |state: &mut State| state.listed.is_none();
        let waited = self.shared.synced.wait_timeout_while(self.shared.state(), FIRST_SYNC, is_unlisted);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &state.listed {
            Some(services) => Ok(variables(services, namespace, links)),
            None => {
                let cause = state.failure.clone().unwrap_or_else(|| "there is no answer yet".to_owned());
                Err(Error::Services { cause })
            }
        }
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn apply(&mut self, event: &Event<RawObject>) {
        match event {
            Event::Init => self.list.clear(),
            Event::InitApply(raw) => set(&mut self.list, raw, Service::read(raw.field("spec"))),
            Event::InitDone => self.listed = Some(std::mem::take(&mut self.list)),
            Event::Apply(raw) => {
                set(self.listed.get_or_insert_default(), raw, Service::read(raw.field("spec")));
            }
            Event::Delete(raw) => set(self.listed.get_or_insert_default(), raw, None),
        }
    }
}

fn set(services: &mut BTreeMap<ServiceKey, Service>, raw: &RawObject, service: Option<Service>) {
    let key = ServiceKey { namespace: raw.namespace().to_owned(), name: raw.name().to_owned() };
    match service {
        Some(service) => services.insert(key, service),
        None => services.remove(&key),
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(name: &str, ip: &str) -> RawObject {
        let object = json!({"metadata": {"namespace": "shop", "name": name},
            "spec": {"clusterIP": ip, "ports": [{"port": 80}]}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn services_are_known_from_the_first_complete_list_and_follow_the_watch() {
        let mut state = State::default();
        let names = |state: &State| {
            let listed = state.listed.as_ref().map(|all| all.keys().map(|key| key.name.clone()).collect());
            listed.map(|names: Vec<String>| names.join(" "))
        };
        let list = |state: &mut State, all: &[&str]| {
            state.apply(&Event::Init);
            all.iter().for_each(|name| state.apply(&Event::InitApply(raw(name, "10.0.0.1"))));
        };
        list(&mut state, &["a"]);
        assert_eq!(names(&state), None, "the list is not complete");
        list(&mut state, &["b", "c"]);
        state.apply(&Event::InitDone);
        assert_eq!(names(&state).as_deref(), Some("b c"));
        state.apply(&Event::Apply(raw("d", "10.0.0.2")));
        state.apply(&Event::Delete(raw("b", "10.0.0.1")));
        state.apply(&Event::Apply(raw("c", "")));
        assert_eq!(names(&state).as_deref(), Some("d"));
        // What is known stays while the services are listed again.
        list(&mut state, &["e"]);
        assert_eq!(names(&state).as_deref(), Some("d"));
        state.apply(&Event::InitDone);
        assert_eq!(names(&state).as_deref(), Some("e"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn without_an_answer_there_are_no_variables_and_the_error_says_why() {
        let refusing = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = kube::Config::new(format!("http://{refusing}").parse().unwrap());
        let services = Services::start(Client::try_from(config).unwrap());
        let found = tokio::task::spawn_blocking(move || services.variables("shop", ServiceLinks::Enabled));
        let Err(Error::Services { cause }) = found.await.unwrap() else { panic!() };
        assert!(!cause.is_empty());
    }
}
