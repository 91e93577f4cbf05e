use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::{Objects, Options};
use apiserver::identity;
use apiserver::node_agent::NodeAgent;
use apiserver::other_agent;
use node::host_name;
use node::kubelet::{KubeletConfig, KubeletFlags, LoadedKubeletConfig};

use super::{Session, run::which};
use crate::cli::{AgentArgs, RunArgs};
use crate::failure::{Answer, Failure};
use crate::run::pods::Run;
use crate::run::signals::Signals;
use crate::run::threads;
use crate::words;

/// How long the end waits for work in other threads.
const SHUTDOWN: Duration = Duration::from_secs(10);

pub(super) fn run(session: &Session, args: &AgentArgs) -> Result<Answer, Failure> {
    if !node::mounts::is_root() {
        return Err(Failure::unknown("running pods needs root").with_hint("run this as root"));
    }
    let flags = KubeletFlags::parse(&args.flags).map_err(|e| hinted(&e, e.hint()))?;
    let loaded = KubeletConfig::load(flags.node.config.as_deref(), flags.node.config_dir.as_deref(), &flags);
    let loaded = loaded.map_err(|e| hinted(&e, e.hint()))?;
    loaded.notices.iter().for_each(|notice| words::note(&notice.to_string()));
    let threads = threads()?;
    let answer = threads.block_on(serve(session, args, &loaded, &flags));
    // What still waits for another host or for a filesystem must not keep the next agent waiting.
    threads.shutdown_timeout(SHUTDOWN);
    answer
}

async fn serve(
    session: &Session,
    args: &AgentArgs,
    loaded: &LoadedKubeletConfig,
    flags: &KubeletFlags,
) -> Result<Answer, Failure> {
    let LoadedKubeletConfig { config, effective, .. } = loaded;
    let mut signals = Signals::catch()?;
    // Another wardlet agent serves ports and sockets of a kubelet, too; one that is ending is waited for.
    let lock = |root: &Path| other_agent::lock(root).map_err(|e| hinted(&e, Some(e.hint())));
    let locked = flags.node.root_dir.is_dir().then(|| lock(&flags.node.root_dir)).transpose()?;
    other_agent::refuse(config, &flags.node.root_dir, flags.node.kubeconfig.is_some())
        .map_err(|e| hinted(&e, Some(e.hint())))?;
    let name = flags.node.hostname_override.clone().unwrap_or_else(|| host_name().to_lowercase());
    let clients = match &flags.node.kubeconfig {
        Some(kubeconfig) => tokio::select! {
            clients = identity::connect(kubeconfig, config, &flags.node, &name) => {
                Some(clients.map_err(|e| hinted(&e, Some(e.hint())))?)
            }
            () = signals.next() => return Ok(Answer::Holds),
        },
        None if config.static_pod_path.is_some() => None,
        None => {
            let text = "there is neither a kubeconfig nor a directory of static pods: no pod can come";
            return Err(Failure::unknown(text).with_hint(
                "name one, as in `wardlet agent -- --kubeconfig=FILE` or `-- --pod-manifest-path=DIR`",
            ));
        }
    };
    let state = session.node.state_dir();
    std::fs::create_dir_all(state)
        .map_err(|e| Failure::unknown(format!("cannot make {}: {e}", state.display())))?;
    let endpoint = (!args.builtin_runtime).then(|| config.container_runtime_endpoint.parse()).transpose()?;
    let run = RunArgs {
        runtime_endpoint: endpoint,
        run_dir: args.run_dir.clone(),
        programs: args.programs.clone(),
        log: args.log,
        ..RunArgs::default()
    };
    let runtime = which(session, &run)?.of_node(clients.is_some(), args.cni).connect().await?;
    runtime.check_isolation()?;
    let root_dir = agent::make_root_dir(&flags.node.root_dir)?;
    let _locked = locked.map_or_else(|| lock(&root_dir), Ok)?;
    let mut node = session.node.clone();
    // The ledger and the census read the records of blocks that are there.
    node.config.settings.kubelet.pods_dir = root_dir.join("pods");
    let ledger = Arc::new(node.ledger_to_lease()?);
    let pods = Run { node: &node, args: &run, runtime: &runtime, objects: Objects::default(), ledger };
    let options = Options { root_dir: Some(root_dir), ..pods.options()? };
    let agent =
        NodeAgent { config, effective, flags: &flags.node, options, node: node.clone(), name, clients };
    let of = agent.clients.as_ref().map_or("no cluster", |clients| clients.main.server());
    words::say(&format!("wardlet agent: node {} of {of}", agent.name));
    agent.run(async { signals.next().await }).await.map_err(|e| hinted(&e, e.hint()))?;
    words::say("wardlet agent: it stops; pods keep running, and the next agent adopts them");
    runtime.end().await;
    Ok(Answer::Holds)
}

fn hinted(error: &dyn Error, hint: Option<String>) -> Failure {
    hint.into_iter().fold(Failure::unknown(error.to_string()), Failure::with_hint)
}
