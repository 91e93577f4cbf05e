use std::io::Write;
use std::process::ExitCode;

use wire::Endpoint;
use wire::client::Client;
use wire::cri::{
    Container, ContainerFilter, ContainerState, ContainerStateValue, ExecSyncRequest, ListContainersRequest,
};

use super::Session;
use crate::cli::ExecArgs;
use crate::failure::Failure;
use crate::run::{find, threads};

const POD_UID: &str = "io.kubernetes.pod.uid";
const CONTAINER_NAME: &str = "io.kubernetes.container.name";

pub(super) fn run(session: &Session, args: &ExecArgs) -> Result<ExitCode, Failure> {
    let pod = find::one(session.node.state_dir(), &args.pod)?;
    let endpoint: Endpoint = pod.record.endpoint.parse()?;
    let spec = pod.record.pod.spec.clone().unwrap_or_default();
    let first = spec.containers.first().map(|c| c.name.clone()).unwrap_or_default();
    let container = args.container.clone().unwrap_or(first);
    threads()?.block_on(exec(&endpoint, (pod.record.uid.as_str(), &container), &args.command))
}

async fn exec(
    endpoint: &Endpoint,
    (uid, name): (&str, &str),
    command: &[String],
) -> Result<ExitCode, Failure> {
    let client = Client::connect(endpoint).await?;
    let id = running(&client, uid, name).await?;
    let request = ExecSyncRequest { container_id: id, cmd: command.to_vec(), timeout: 0 };
    let done = client.runtime().exec_sync(request).await;
    let done =
        done.map_err(|s| Failure::unknown(format!("the runtime refused ExecSync: {}", s.message())))?;
    let done = done.into_inner();
    let written = std::io::stdout().lock().write_all(&done.stdout);
    let written = written.and_then(|()| std::io::stderr().lock().write_all(&done.stderr));
    // A reader that has seen enough is no reason to fail.
    drop(written);
    Ok(ExitCode::from(u8::try_from(done.exit_code).unwrap_or(1)))
}

async fn running(client: &Client, uid: &str, name: &str) -> Result<String, Failure> {
    let labels = [(POD_UID.to_owned(), uid.to_owned()), (CONTAINER_NAME.to_owned(), name.to_owned())];
    let state = Some(ContainerStateValue { state: ContainerState::ContainerRunning.into() });
    let filter = ContainerFilter { state, label_selector: labels.into(), ..ContainerFilter::default() };
    let listed = client.runtime().list_containers(ListContainersRequest { filter: Some(filter) }).await;
    let listed = listed
        .map_err(|s| Failure::unknown(format!("the runtime refused ListContainers: {}", s.message())))?;
    let first = |all: Vec<Container>| all.into_iter().next().map(|container| container.id);
    first(listed.into_inner().containers).ok_or_else(|| {
        Failure::refused(format!("container {name} does not run")).with_hint("`wardlet ps -o json` shows why")
    })
}
