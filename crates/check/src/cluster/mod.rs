//! The objects of a live cluster, page by page, with read rights alone.
//!
//! - `connect`: from a kubeconfig to a client.
//! - `kinds`: what is asked for.
//! - `pages`: one kind, page by page.
//! - `status`: what the controller keeps of a cluster.
//! - `trouble`, [`Error`]: what went wrong, in a line, and what to do about it.
//!
//! Pages are handed on as the server wrote them, so that a cluster and a dump of it are read by one reader.

mod connect;
mod error;
mod kinds;
mod pages;
mod status;
mod trouble;

use std::path::PathBuf;

use kube::Client;
use plan::KubernetesVersion;

pub use connect::{Connection, connect};
pub use error::Error;
use inventory::{ManifestChunk, Objects, Origin, stream};
use kinds::{KINDS, Kind};
use pages::List;
use trouble::Trouble;

use crate::controller::ControllerStatus;
use crate::report::Problem;

/// Which cluster, and with which kubeconfig and context.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The kubeconfig; without one, `KUBECONFIG` or `~/.kube/config`, and inside a pod its service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it; without one, the current one.
    pub context: Option<String>,
    /// Only this namespace, for a user without rights in others.
    pub namespace: Option<String>,
}

/// What was learned of a cluster beside its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// Its API server.
    pub server: String,
    /// The version that it tells: `v1.36.2`. Some servers do not report it.
    pub version: Option<String>,
    /// What could not be read of it.
    unread: Vec<Unread>,
}

impl Visit {
    /// Its release, if its defaults are known here.
    #[must_use]
    pub fn release(&self) -> Option<KubernetesVersion> {
        self.version.as_ref()?.parse().ok()
    }
}

/// A kind that could not be read, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unread {
    kind: &'static str,
    trouble: Trouble,
}

/// Takes one page: the kind's name, and the server's JSON.
type Pages<'a> = dyn FnMut(&str, &[u8]) + 'a;

/// Reads every kind that the check has a use for into `objects`, and what could not be read as problems.
///
/// # Errors
/// If the server cannot be reached, does not accept the credentials, or shows none of the kinds that make pods.
pub fn read(access: &Access, objects: &mut Objects) -> Result<Visit, Error> {
    let visit = visit_now(access, &mut |kind, page| take(kind, page, objects))?;
    for unread in &visit.unread {
        let cause = format!("could not be read from {}: {}", visit.server, unread.trouble.cause);
        let hint = unread.trouble.hint.clone();
        objects.add_problem(Problem { place: None, field: unread.kind.to_owned(), cause, hint });
    }
    Ok(visit)
}

/// Reads the status that the controller keeps. The namespace of `access` is the controller's.
///
/// # Errors
/// If the server cannot be reached or does not show it, or there is none.
pub fn controller_status(access: &Access) -> Result<ControllerStatus, Error> {
    runtime()?.block_on(status::status(access))
}

/// Pages are cut and read as the texts of a dump are.
fn take(kind: &str, page: &[u8], objects: &mut Objects) {
    let name = format!("cluster {kind}");
    let mut each = |chunk: &ManifestChunk<'_>| objects.take(chunk);
    let read = stream::parts(page, &mut stream::Sink::new(&name, Origin::Named, &mut each));
    if let Err(error) = read {
        let cause = format!("a page could not be read: {error}");
        objects.add_problem(Problem { field: kind.to_owned(), cause, ..Problem::default() });
    }
}

fn visit_now(access: &Access, sink: &mut Pages<'_>) -> Result<Visit, Error> {
    runtime()?.block_on(visit(access, sink))
}

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)
}

async fn visit(access: &Access, sink: &mut Pages<'_>) -> Result<Visit, Error> {
    let target = connect::target(access).await?;
    let server = target.server;
    let version = version(&target.client, &server).await?;
    let mut unread = Vec::new();
    for kind in KINDS {
        let list = List { client: &target.client, kind, namespace: access.namespace.as_deref() };
        if let Err(error) = list.read(sink).await {
            let trouble = Trouble::of(&error, &server);
            if trouble.ends_everything {
                return Err(trouble.into());
            }
            if trouble.nothing_missing {
                continue;
            }
            unread.push(Unread { kind: kind.name, trouble });
        }
    }
    no_pods_at_all(&unread, &server)?;
    Ok(Visit { server, version, unread })
}

/// The server's version. That it answers at all is found out here, once, before thirteen lists fail alike.
async fn version(client: &Client, server: &str) -> Result<Option<String>, Error> {
    match client.apiserver_version().await {
        Ok(info) => Ok(Some(info.git_version)),
        Err(error) => match Trouble::of(&error, server) {
            trouble if trouble.ends_everything => Err(trouble.into()),
            _ => Ok(None),
        },
    }
}

/// A cluster of which no pods and no workloads can be seen has not been checked.
fn no_pods_at_all(unread: &[Unread], server: &str) -> Result<(), Error> {
    let mut with_pods = KINDS.iter().filter(|kind| kind.has_pods);
    if with_pods.any(|kind| !unread.iter().any(|u| u.kind == kind.name)) {
        return Ok(());
    }
    let cause = unread.first().map_or_else(String::new, |u| u.trouble.cause.clone());
    Err(Error::NothingShown { server: server.to_owned(), cause })
}
