//! A wrapper around an OCI runtime.
//!
//! containerd or CRI-O call it as they would call runc. It gives a user namespace to each pod that asks for one by
//! annotation, and passes every other call on to the real runtime unchanged.
//!
//! | module | contents |
//! |---|---|
//! | [`call`] | the command line of OCI runtimes |
//! | [`spec`] | a container's `config.json`: the parts that decide, or all of it |
//! | [`gate`] | the annotations that ask for a user namespace, and what is not possible with one |
//! | [`lease`] | the pod's block in the node's ledger; the crate `oci-records` has the record of each container |
//! | [`isolation`] | the container's filesystems, network and standard streams |
//! | [`create`](mod@create), [`start`], [`exec`], [`delete`] | the commands that the wrapper handles for such pods |
//! | `watcher` | the process that releases the lease of a create that failed |
//! | [`hand_over`] | execution of the real runtime |
//! | [`log`] | log lines for the caller and the operator |

pub mod call;
pub mod create;
pub mod delete;
mod error;
pub mod exec;
pub mod gate;
pub mod hand_over;
pub mod isolation;
pub mod lease;
pub mod log;
mod probe;
mod site;
pub mod spec;
pub mod start;
mod watcher;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

pub use error::{Error, Result};

use call::{Call, Command};
use site::Site;

/// Executes the call of a command line, and returns the exit code of the process: 1 after an error, which is logged.
/// Most calls do not return, since this process executes the runtime.
#[must_use]
pub fn run(called_as: &OsStr, words: Vec<OsString>) -> u8 {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let call = Call::read(words, &here);
    obey(&call, called_as).unwrap_or_else(|error| {
        log::Log::new(&call.globals).error(&error);
        1
    })
}

fn obey(call: &Call, called_as: &OsStr) -> Result<u8> {
    let site = Site::new(call, called_as)?;
    match &call.command {
        Command::Create(wanted) => create::create(&site, wanted, create::Manner::Create),
        Command::Run(wanted) => create::create(&site, wanted, create::Manner::Run),
        Command::Restore(wanted) => create::create(&site, wanted, create::Manner::Restore),
        Command::Exec(wanted) => exec::exec(&site, wanted),
        Command::Start(id) => start::start(&site, id),
        Command::Delete(id) => delete::delete(&site, id),
        Command::CleanupWatcher(watcher) => watcher::watch(&site, watcher),
        Command::Other => unchanged(&site),
    }
}

/// Passes the call on to the runtime unchanged.
fn unchanged(site: &Site<'_>) -> Result<u8> {
    match hand_over::become_runtime(&site.runtime, &site.call.words)? {}
}
