//! An OCI runtime that stands in front of another one.
//!
//! containerd or CRI-O call it as they would call runc; it gives pods that ask for it a user namespace
//! of their own, and hands everything else over to the real runtime unseen.
//!
//! | module | what it knows |
//! |---|---|
//! | [`call`] | the command line of OCI runtimes |
//! | [`spec`] | a container's configuration: a glance, or all of it |
//! | [`gate`] | who asks, who decides, and what cannot be had with a user namespace |
//! | [`lease`] | the pod's block in the node's ledger; a record of each container |
//! | [`ward`] | the container's files, network and descriptors |
//! | [`create`](mod@create), [`start`], [`exec`], [`delete`] | the commands that are ours for such pods |
//! | `look_after` | what becomes of a lease when the runtime has ended |
//! | [`hand_over`] | the real runtime |
//! | [`log`] | words for the caller and the operator |

pub mod call;
pub mod create;
pub mod delete;
mod error;
pub mod exec;
pub mod gate;
pub mod hand_over;
pub mod lease;
pub mod log;
mod look_after;
mod meanwhile;
mod probe;
mod site;
pub mod spec;
pub mod start;
pub mod ward;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

pub use error::{Error, Result};

use call::{Call, Command};
use site::Site;

/// Does what the words of a command line say, and gives the code to end with. Most calls never come
/// back: this process becomes the runtime.
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
        Command::LookAfter(left) => look_after::look_after(&site, left),
        Command::Other => unchanged(&site),
    }
}

/// Hands the call over as it came.
fn unchanged(site: &Site<'_>) -> Result<u8> {
    match hand_over::become_runtime(&site.runtime.path, &site.call.words)? {}
}
