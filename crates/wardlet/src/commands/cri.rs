use std::path::Path;
use std::sync::Arc;

use container::{Engine, Owners};
use cri::Endpoint;
use images::Registries;
use network::Kind;
use runtime::connect::{claim, own_endpoint};
use runtime::{Programs, Runtime, Settings};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Session, run::run_dir};
use crate::cli::{CriArgs, NetworkKind, OwnersHow};
use crate::failure::{Answer, Failure};
use crate::words;
use node::LedgerPairs;

const REGISTRIES: &str = "/etc/wardlet/registries.yaml";

pub(super) fn run(session: &Session, args: &CriArgs) -> Result<Answer, Failure> {
    if !node::mounts::is_root() {
        return Err(Failure::unknown("the runtime needs root").with_hint("run this as root"));
    }
    let settings = settings(session, args)?;
    let endpoint = args.listen.clone().map_or_else(|| own_endpoint(&settings.run), Ok)?;
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::unknown(format!("cannot start threads: {e}")))?;
    threads.block_on(serve(settings, &endpoint))
}

async fn serve(settings: Settings, endpoint: &Endpoint) -> Result<Answer, Failure> {
    // Caught before anything is made: a signal in the midst of it would leave it half made.
    let (mut terminate, mut interrupt) = (caught(SignalKind::terminate())?, caught(SignalKind::interrupt())?);
    // Before anything is touched: a server that cannot serve must not adopt the pods of another server.
    let claim = claim(endpoint).await?;
    let runtime = Runtime::open(settings).await?;
    let told = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        words::say("wardlet cri: the server stops; pods keep running, and the next server adopts them");
    };
    runtime.serve(claim, told).await?;
    Ok(Answer::Holds)
}

fn caught(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|e| Failure::unknown(format!("cannot catch signals: {e}")))
}

pub(super) fn settings(session: &Session, args: &CriArgs) -> Result<Settings, Failure> {
    let default = session.node.host_root().path(REGISTRIES);
    let registries = Registries::load(args.registries.as_deref(), &default)?;
    let programs = args.programs.as_deref().map_or_else(Programs::beside_this, Programs::in_dir);
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|e| Failure::unknown(format!("{}: {e}", path.display())))
    };
    Ok(Settings {
        state: absolute(session.node.state_dir())?,
        run: absolute(&run_dir(session, args.run_dir.as_deref()))?,
        engine: engine(&args.engine)?,
        network: kind(session, args),
        streaming: args.streaming_address,
        remote: registries.remote(),
        limits: registries.limits(),
        owners: match args.owners {
            OwnersHow::Idmap => Owners::Idmap,
            OwnersHow::IdmapOrChown => Owners::IdmapOrChown,
            OwnersHow::Chown => Owners::Chown,
        },
        cgroup: cgroup(&args.cgroup.clone().unwrap_or_else(|| session.node.instance().cgroup()))?,
        pairs: Arc::new(LedgerPairs::of(&session.node)),
        programs: programs?,
    })
}

fn engine(text: &str) -> Result<Engine, Failure> {
    Engine::named(text).ok_or_else(|| {
        Failure::unknown(format!("--engine {text}: it is neither libcontainer nor the path of a program"))
            .with_hint("give the full path of an OCI runtime, such as /usr/sbin/runc")
    })
}

fn kind(session: &Session, args: &CriArgs) -> Kind {
    match args.network {
        NetworkKind::Bridge => {
            let name = args.bridge_name.clone().unwrap_or_else(|| session.node.instance().bridge());
            Kind::Bridge { name, subnets: args.bridge_subnet, mtu: None }
        }
        NetworkKind::Cni => {
            Kind::Cni { conf_dir: args.cni_conf_dir.clone(), bin_dirs: args.cni_bin_dirs.clone() }
        }
        NetworkKind::None => Kind::None,
    }
}

fn cgroup(text: &str) -> Result<String, Failure> {
    runtime::parent_cgroup(text).ok_or_else(|| {
        Failure::unknown(format!("--cgroup {text}: it is no path below the root of control groups"))
            .with_hint("name one of its own, such as /wardlet")
    })
}

impl From<runtime::Error> for Failure {
    fn from(e: runtime::Error) -> Self {
        let failure = Self::unknown(e.to_string());
        e.hint().into_iter().fold(failure, Self::with_hint)
    }
}
