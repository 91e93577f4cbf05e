//! One socket in the directory of plugins.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::transport::Channel;
use tracing::warn;

use super::{Answer, Handlers, Plugin, Registered};
use crate::api::pluginregistration::registration_client::RegistrationClient;
use crate::api::pluginregistration::{InfoRequest, PluginInfo, RegistrationStatus};
use crate::plugin::{dial, within};

/// A kubelet's times: to connect, to answer, and to take the outcome.
const DIAL: Duration = Duration::from_secs(10);
const INFO: Duration = Duration::from_secs(1);
const NOTIFY: Duration = Duration::from_secs(5);

/// Asks at a socket which plugin is there, registers it, and tells it whether it is. The error says why it is not. A plugin of
/// a type without a handler is notified of nothing, as by a node that has not found it yet.
pub(super) async fn register(socket: &Path, handlers: &Handlers) -> Result<Answer, String> {
    let channel = dial(socket, DIAL).await.map_err(|error| error.to_string())?;
    let mut client = RegistrationClient::new(channel);
    let info = within(socket, INFO, client.get_info(InfoRequest {})).await;
    let info = info.map_err(|error| format!("it does not say what it is: {error}"))?;
    let PluginInfo { r#type: kind, name, endpoint, supported_versions: versions } = info;
    let Some((kind, handler)) = handlers.get_key_value(kind.as_str()) else {
        return Ok(Answer::Other { kind, name });
    };
    let endpoint = if endpoint.is_empty() { socket.to_owned() } else { PathBuf::from(endpoint) };
    let plugin = Plugin { name, endpoint, versions };
    let outcome = handler.register(&plugin).await;
    let outcome = outcome
        .map_err(|error| format!("RegisterPlugin error -- plugin registration failed with err: {error}"));
    let status = RegistrationStatus {
        plugin_registered: outcome.is_ok(),
        error: outcome.as_ref().err().cloned().unwrap_or_default(),
    };
    let notified = notify(socket, &mut client, status).await;
    match (outcome, notified) {
        (Ok(registration), Err(cause)) => {
            handler.deregister(&plugin, registration);
            Err(format!("it does not take that it is registered: {cause}"))
        }
        (Err(cause), Err(deaf)) => {
            warn!("the plugin at {} does not take that it is not registered: {deaf}", socket.display());
            Err(cause)
        }
        (Ok(registration), Ok(())) => Ok(Answer::Registered(Registered { kind, plugin, registration })),
        (Err(cause), Ok(())) => Err(cause),
    }
}

async fn notify(
    socket: &Path,
    client: &mut RegistrationClient<Channel>,
    status: RegistrationStatus,
) -> Result<(), String> {
    let notified = within(socket, NOTIFY, client.notify_registration_status(status)).await;
    notified.map(drop).map_err(|error| error.to_string())
}
