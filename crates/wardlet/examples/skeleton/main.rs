//! The walking skeleton: one container from end to end, on the real kernel.
//!
//! Leases a block of host IDs, makes an idmapped overlay root filesystem from a busybox layer and one
//! idmapped volume in a mount namespace of its own, starts them through runc, and shows who owns what
//! inside and outside. Exits with 0 only if all of it is as it must be, and leaves nothing behind.
//!
//! - `needs`: what must be there first. `lease`, `scratch`, `layer`, `stage`: what the container gets.
//! - `config`, `script`, `container`: its specification, what it does, its life under runc.
//! - `evidence`, `verdict`, `report`: what was seen, what must hold, how it is shown.
//! - `cgroup`: what runc leaves when it is killed.

mod cgroup;
mod config;
mod container;
mod evidence;
mod layer;
mod lease;
mod needs;
mod report;
mod scratch;
mod script;
mod stage;
mod verdict;
mod walk;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::words::say;

/// Runs one busybox container in a user namespace of its own and proves who owns what.
#[derive(Parser)]
#[command(name = "skeleton")]
struct Cli {
    /// Keep the container until Enter is pressed, to look around.
    #[arg(long)]
    hold: bool,
    /// Where the node's ledger lies.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/wardlet")]
    state_dir: PathBuf,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let until = if cli.hold { walk::Until::Enter } else { walk::Until::Seen };
    match walk::walk(until, &cli.state_dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            if let Some(hint) = needs::hint(&error) {
                say(&format!("\nhint: {hint}"));
            }
            ExitCode::FAILURE
        }
    }
}
