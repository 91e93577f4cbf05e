//! The first certificate of a node, with the credentials of a bootstrap kubeconfig.

use std::path::Path;
use std::time::Duration;

use durable::AtomicFile;
use k8s_openapi::jiff::Timestamp;
use rcgen::KeyPair;
use tokio::time::Instant;
use tracing::{info, warn};

use super::names::Names;
use super::request::{Signer, Wanted, await_certificate, new_key, submit};
use super::store::Store;
use super::{IdentityError, NodeIdentity, kubeconfig};
use crate::client::kubeconfig::{cluster, load};
use crate::client::pair::Source;
use crate::client::{ApiClient, Clients, ErrorKind};

/// How long the API server may be unreachable.
const REACHABLE: Duration = Duration::from_secs(60);
/// How long an approval may take.
const APPROVAL: Duration = Duration::from_secs(3600);
/// The wait between two attempts.
const AGAIN: Duration = Duration::from_secs(2);
/// Greater files are no keys.
const LARGEST: u64 = 1 << 20;

/// Makes sure that there is a kubeconfig with a client certificate. With rotation the certificate comes later: the result
/// is the client to request it with then.
pub(super) async fn ensure(
    identity: &NodeIdentity,
    bootstrap: &Path,
) -> Result<Option<ApiClient>, IdentityError> {
    let store = Store::client(&identity.cert_dir);
    store.open()?;
    let Some(cause) = why_unusable(&identity.kubeconfig).await else {
        // What an agent that was killed at its very end has not removed.
        durable::remove(&store.parked_key())?;
        return Ok(None);
    };
    info!("{cause}: a client certificate is requested with the bootstrap kubeconfig {}", bootstrap.display());
    let loaded = load(bootstrap).await?;
    let client = Clients::from_kubeconfig(bootstrap).await?.main;
    if !identity.rotates {
        request(identity, &client, &store).await?;
    }
    if let Some(cluster) = cluster(&loaded.kubeconfig) {
        kubeconfig::write(&identity.kubeconfig, cluster, &store.current_path())?;
    }
    durable::remove(&store.parked_key())?;
    Ok(identity.rotates.then_some(client))
}

/// Why a kubeconfig does not do: it must have a client certificate, and none of its chain may have expired.
async fn why_unusable(path: &Path) -> Option<String> {
    let file = path.display();
    if !path.try_exists().unwrap_or(false) {
        return Some(format!("there is no kubeconfig {file}"));
    }
    let pair = match load(path).await.map(|loaded| loaded.certificate) {
        Ok(Source::Embedded(pair) | Source::Files(Some(pair))) => pair,
        Ok(Source::Files(None)) => {
            return Some(format!("the client certificate of the kubeconfig {file} does not exist"));
        }
        Ok(Source::Other) => return Some(format!("the kubeconfig {file} has no client certificate")),
        Err(error) => return Some(error.to_string()),
    };
    pair.is_expired(Timestamp::now())
        .then(|| format!("the client certificate of the kubeconfig {file} expired at {}", pair.chain_ends))
}

/// Requests the certificate and waits for it. Key and name of the request stay the same until it is kept: an agent that is
/// killed on the way goes on with the request that it has made.
async fn request(identity: &NodeIdentity, client: &ApiClient, store: &Store) -> Result<(), IdentityError> {
    let key = parked_key(store)?;
    let wanted = Wanted { node: &identity.name, signer: Signer::Client, names: &Names::default() };
    let name = wanted.name_for(&key);
    let start = Instant::now();
    let mut is_logged = false;
    let name = loop {
        match submit(client, wanted, &key, Some(name.clone())).await {
            Ok(name) => break name,
            Err(IdentityError::Api(error))
                if matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout)
                    && start.elapsed() < REACHABLE =>
            {
                if !is_logged {
                    warn!(hint = error.hint(), "bootstrap: {error}; trying again for a minute");
                    is_logged = true;
                }
                tokio::time::sleep(AGAIN).await;
            }
            Err(IdentityError::Api(error)) => return Err(IdentityError::of_bootstrap(error)),
            Err(error) => return Err(error),
        }
    };
    info!(
        "bootstrap: CertificateSigningRequest {name} waits for its approval (`kubectl certificate approve {name}`)"
    );
    let pair = match await_certificate(client, &name, &key, APPROVAL).await {
        Ok(pair) => pair,
        Err(error) => {
            // The certificate of an old request: the next start makes another key, and so another request.
            if matches!(error, IdentityError::Issued { .. }) {
                durable::remove(&store.parked_key())?;
            }
            return Err(error);
        }
    };
    let path = store.update(&pair, Timestamp::now())?;
    info!("bootstrap: the client certificate is valid until {}: {}", pair.not_after, path.display());
    Ok(())
}

/// The key of a request that was made before, or a new one.
fn parked_key(store: &Store) -> Result<KeyPair, IdentityError> {
    let path = store.parked_key();
    let text = durable::read(&path, LARGEST)?.and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(key) = text.and_then(|text| KeyPair::from_pem(&text).ok()) {
        return Ok(key);
    }
    let key = new_key()?;
    AtomicFile::at(&path).mode(0o600).replace(key.serialize_pem().as_bytes())?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::pair::tests::pair;

    #[tokio::test]
    async fn a_kubeconfig_does_if_it_has_a_certificate_that_is_valid() {
        let dir = tempfile::tempdir().unwrap();
        let (path, file) = (dir.path().join("kubeconfig"), dir.path().join("current.pem"));
        let unusable = async |part: &str| {
            let cause = why_unusable(&path).await.unwrap();
            assert!(cause.contains(part), "{part:?} is not in {cause:?}");
        };
        unusable("there is no").await;
        let cluster = serde_json::from_value(serde_json::json!({"server": "https://a:6443"})).unwrap();
        kubeconfig::write(&path, &cluster, &file).unwrap();
        unusable("does not exist").await;
        std::fs::write(&file, pair(2020, 2021).text()).unwrap();
        unusable("expired at 2021-01-01").await;
        std::fs::write(&file, "no certificate").unwrap();
        unusable("current.pem").await;
        std::fs::write(&file, pair(2020, 2199).text()).unwrap();
        assert_eq!(why_unusable(&path).await, None);
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, _) = text.split_once("    client-certificate").unwrap();
        std::fs::write(&path, format!("{before}    token: abc\n")).unwrap();
        unusable("no client certificate").await;
    }

    #[test]
    fn a_key_stays_until_its_request_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::client(dir.path());
        let key = parked_key(&store).unwrap().serialize_pem();
        assert_eq!(parked_key(&store).unwrap().serialize_pem(), key);
        std::fs::write(store.parked_key(), "half a").unwrap();
        assert_ne!(parked_key(&store).unwrap().serialize_pem(), key);
    }
}
