//! Sessions at the container runtime, for the kubelet's API.

use std::time::Duration;

use agent::Owned;
use cri::client::Client;
use cri::{AttachRequest, CallError, Code, ExecRequest, ExecSyncRequest, PortForwardRequest, within};
use kubelet_api::{Call, RunOutput, Session, StreamError, Streams, Wanted};
use types::PodUid;

/// How long the runtime may take to offer a session.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a command without a session may run, as the longest connection.
const LONGEST_COMMAND: Duration = Duration::from_secs(4 * 3600);

/// The runtime of this node.
pub(crate) struct RuntimeStreams {
    client: Client,
    owned: Owned,
}

impl RuntimeStreams {
    pub(crate) fn new(client: Client, owned: Owned) -> Self {
        Self { client, owned }
    }

    async fn url(&self, session: Session) -> Result<String, StreamError> {
        let mut runtime = self.client.runtime();
        let url = match session {
            Session::Exec { container: container_id, command: cmd, wanted } => {
                let Wanted { stdin, stdout, stderr, tty } = wanted;
                let request = ExecRequest { container_id, cmd, tty, stdin, stdout, stderr };
                within(PATIENCE, "Exec", runtime.exec(request)).await.map_err(|error| failed(&error))?.url
            }
            Session::Attach { container: container_id, wanted } => {
                let Wanted { stdin, stdout, stderr, tty } = wanted;
                let request = AttachRequest { container_id, stdin, tty, stdout, stderr };
                within(PATIENCE, "Attach", runtime.attach(request)).await.map_err(|error| failed(&error))?.url
            }
            Session::PortForward { uid, ports } => {
                let pod_sandbox_id = self.sandbox(&uid).await?;
                let port = ports.into_iter().map(i32::from).collect();
                let request = PortForwardRequest { pod_sandbox_id, port };
                within(PATIENCE, "PortForward", runtime.port_forward(request))
                    .await
                    .map_err(|error| failed(&error))?
                    .url
            }
        };
        Ok(url)
    }

    async fn sandbox(&self, uid: &str) -> Result<String, StreamError> {
        let uid = PodUid::new(uid).map_err(|error| StreamError::Failed(error.to_string()))?;
        let found = self.owned.ready_sandbox(&self.client, &uid).await;
        let found = found.map_err(|error| StreamError::Failed(error.to_string()))?;
        found.ok_or_else(|| StreamError::Failed("the pod has no sandbox that is ready".to_owned()))
    }

    async fn run(&self, container: String, command: Vec<String>) -> Result<RunOutput, StreamError> {
        let request = ExecSyncRequest { container_id: container, cmd: command, timeout: 0 };
        let ran = within(LONGEST_COMMAND, "ExecSync", self.client.runtime().exec_sync(request)).await;
        let ran = ran.map_err(|error| failed(&error))?;
        Ok(RunOutput { stdout: ran.stdout, stderr: ran.stderr, code: ran.exit_code })
    }
}

impl Streams for RuntimeStreams {
    fn url(&self, session: Session) -> Call<'_, String> {
        Box::pin(self.url(session))
    }

    fn run(&self, container: String, command: Vec<String>) -> Call<'_, RunOutput> {
        Box::pin(self.run(container, command))
    }
}

fn failed(error: &CallError) -> StreamError {
    let words = error.to_string();
    match error {
        CallError::Refused { code: Code::NotFound, .. } => StreamError::NotFound(words),
        CallError::Refused { code: Code::ResourceExhausted, .. } => StreamError::Exhausted(words),
        _ => StreamError::Failed(words),
    }
}
