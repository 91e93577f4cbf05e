use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::ports::{BoxFuture, EventSink, StatusSink, SystemClock};
use agent::{Admitted, Agent, Objects, StatusFiles};
use apiserver::client::Clients;
use apiserver::events::ApiEvents;
use apiserver::node::{MachinePaths, NodeSettings, RuntimeProbe, addresses, read_machine};
use apiserver::objects::ApiObjects;
use apiserver::pods::PodWatch;
use apiserver::reconcile::{self, Admission, Ports};
use apiserver::status::{ApiStatuses, StatusNode};
use cri::client::Client;
use manifest::{Object, Reading};
use node::kubelet::{KubeletConfig, KubeletFlags, LoadedKubeletConfig};
use node::{Node, host_name};

use super::{Session, run::which};
use crate::cli::{AgentArgs, RunArgs};
use crate::failure::{Answer, Failure};
use crate::run::pods::Run;
use crate::run::signals::Signals;
use crate::run::{admit, threads};
use crate::words;

/// The version of Kubernetes that the agent speaks.
const VERSION: &str = "v1.37.1";

pub(super) fn run(session: &Session, args: &AgentArgs) -> Result<Answer, Failure> {
    if !node::mounts::is_root() {
        return Err(Failure::unknown("running pods needs root").with_hint("run this as root"));
    }
    let mut flags = KubeletFlags::default();
    for flag in &args.flags {
        let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
        flags.set(name.trim_start_matches('-'), value).map_err(|e| hinted(&e, e.hint()))?;
    }
    let loaded = KubeletConfig::load(flags.node.config.as_deref(), flags.node.config_dir.as_deref(), &flags);
    let loaded = loaded.map_err(|e| hinted(&e, e.hint()))?;
    loaded.notices.iter().for_each(|notice| words::note(&notice.to_string()));
    let Some(kubeconfig) = flags.node.kubeconfig.clone() else {
        return Err(Failure::unknown("there is no kubeconfig: pods come from an API server")
            .with_hint("name one: wardlet agent -- --kubeconfig=/etc/kubernetes/kubelet.conf; `wardlet run` needs none"));
    };
    threads()?.block_on(serve(session, args, &Configuration { flags, loaded, kubeconfig }))
}

struct Configuration {
    flags: KubeletFlags,
    loaded: LoadedKubeletConfig,
    kubeconfig: PathBuf,
}

async fn serve(session: &Session, args: &AgentArgs, given: &Configuration) -> Result<Answer, Failure> {
    let mut signals = Signals::catch()?;
    let (config, flags) = (&given.loaded.config, &given.flags.node);
    let state = session.node.state_dir().to_owned();
    let made = std::fs::create_dir_all(&state);
    made.map_err(|e| Failure::unknown(format!("cannot make {}: {e}", state.display())))?;
    let clients = Clients::from_kubeconfig(&given.kubeconfig).await.map_err(|e| hinted(&e, Some(e.hint().to_owned())))?;
    let name = flags.hostname_override.clone().unwrap_or_else(|| host_name().to_lowercase());
    let run = RunArgs { run_dir: args.run_dir.clone(), programs: args.programs.clone(), ..RunArgs::default() };
    let runtime_endpoint = match args.builtin_runtime {
        true => None,
        false => Some(config.container_runtime_endpoint.parse().map_err(|e: cri::Error| Failure::from(e))?),
    };
    let run = RunArgs { runtime_endpoint, log: args.log, ..run };
    let runtime = which(session, &run)?.connect().await?;
    runtime.check_isolation()?;

    let paths = MachinePaths { host_root: Path::new("/"), storage: &state };
    let machine = read_machine(paths).map_err(|e| hinted(&e, Some(e.hint().to_owned())))?;
    let settings = NodeSettings::of(config, flags, &name, VERSION);
    if let Some(refusal) = settings.validate(&machine).first() {
        let failure = Failure::refused(format!("{}: {}", refusal.field, refusal.cause));
        return Err(refusal.hint.iter().fold(failure, |failure, hint| failure.with_hint(hint.as_str())));
    }
    let addresses = addresses(&name, &settings.node_ips).map_err(|e| hinted(&e, Some(e.hint().to_owned())))?;
    let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let probe = RuntimeProbe::start(runtime.client.clone(), machine, addresses);
    let node = apiserver::node::spawn(&clients, settings, config.into(), probe.state());
    let _lease = apiserver::lease::spawn(&clients, &name, config.into(), node.node());
    words::say(&format!("node {name}: registering at {}", clients.main.server()));
    let mut seen = node.node();
    tokio::select! {
        _ = seen.wait_for(Option::is_some) => {}
        () = signals.next() => return Ok(Answer::Holds),
    }

    let client = clients.main.kube();
    let source = PodWatch::start(client.clone(), &name);
    let local: Arc<dyn StatusSink> = Arc::new(StatusFiles::new(state.clone()));
    let mut answered = probe.state();
    let known = answered.wait_for(|state| state.facts.runtime.is_some()).await;
    let runtime_name = known.ok().and_then(|state| state.facts.runtime.clone()).unwrap_or_default().name;
    let of_node = StatusNode { addresses: shown.clone(), runtime: runtime_name };
    let statuses = Arc::new(ApiStatuses::start(client.clone(), source.view(), of_node, local));
    let events: Arc<dyn EventSink> = Arc::new(ApiEvents::start(client.clone(), &name));
    let objects = ApiObjects::new(client);
    let ledger = Arc::new(session.node.ledger_to_lease()?);
    let base = Run { node: &session.node, args: &run, runtime: &runtime, objects: Objects::default(), ledger };
    let mut options = base.options()?;
    options.statuses = Arc::clone(&statuses) as _;
    options.events = Arc::clone(&events);
    options.objects = Arc::new(objects.clone());
    options.node = name;
    options.host_ip = shown.into_iter().next().unwrap_or_default();
    let agent = Agent::open(options)?;
    agent.collect_orphans().await;
    let admission = NodeAdmission { node: session.node.clone(), client: runtime.client.clone(), args: run };
    let (admission, clock) = (Arc::new(admission), Arc::new(SystemClock));
    let ports = Ports { agent, state, admission, statuses, events, objects, clock };
    reconcile::run(ports, source, async { signals.next().await }).await;
    words::say("wardlet agent: it stops; pods keep running, and the next agent adopts them");
    runtime.end().await;
    Ok(Answer::Holds)
}

fn hinted(error: &dyn std::error::Error, hint: Option<String>) -> Failure {
    hint.into_iter().fold(Failure::unknown(error.to_string()), Failure::with_hint)
}

/// Admission with the facts of this node and the features that its runtime reports.
struct NodeAdmission {
    node: Node,
    client: Client,
    args: RunArgs,
}

impl Admission for NodeAdmission {
    fn admit<'a>(&'a self, pod: &'a Object) -> BoxFuture<'a, Result<Box<Admitted>, String>> {
        Box::pin(async move {
            let reading = Reading { objects: vec![pod.clone()], ..Reading::default() };
            let told = |failure: Failure| failure.message().to_owned();
            let considered = tokio::task::block_in_place(|| admit::consider(&self.node, &self.args, &reading));
            let decision = admit::decide(considered.map_err(told)?, &self.client, &self.node, &self.args);
            let decision = decision.await.map_err(told)?;
            let refusals = decision.refused.iter().flat_map(|refused| &refused.refusals);
            let refused = refusals.map(|one| format!("{}: {}; {}", one.field, one.cause, one.hint));
            let refused = refused.collect::<Vec<_>>().join("; ");
            decision.admitted.into_iter().next().map(Box::new).ok_or(refused)
        })
    }
}
