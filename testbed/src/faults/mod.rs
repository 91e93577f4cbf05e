//! Faults on demand: what breaks around a part, and how it is mended.
//!
//! [`stop`], [`resume`], [`kill`]: a part's processes. [`kill_at`]: at the Nth system call. [`cut_off_node`]: no
//! way from the node to the API server. [`disk`]: none left, or slow.

pub mod disk;

use rustix::process::Signal;

use crate::cluster::parts::Part;
use crate::{Error, ProcessId, Result, Testbed, program};

fn processes(testbed: &Testbed, part: Part) -> Vec<ProcessId> {
    let daemons = testbed.record().daemons.iter().filter(|daemon| daemon.part == part);
    daemons.map(|daemon| daemon.process).collect()
}

fn signal(testbed: &Testbed, part: Part, signal: Signal) -> Result<()> {
    let reached = processes(testbed, part).into_iter().filter(|process| process.signal(signal)).count();
    if reached > 0 {
        return Ok(());
    }
    Err(Error::NotReady { part: part.to_string(), seconds: 0, cause: "it does not run".into() })
}

/// Stops a part where it is: it keeps its sockets and answers nothing.
///
/// # Errors
/// If it does not run.
pub fn stop(testbed: &Testbed, part: Part) -> Result<()> {
    signal(testbed, part, Signal::STOP)
}

/// Lets a stopped part go on.
///
/// # Errors
/// If it does not run.
pub fn resume(testbed: &Testbed, part: Part) -> Result<()> {
    signal(testbed, part, Signal::CONT)
}

/// Kills a part at once and waits until it is gone; [`Testbed::restart`] starts it again.
///
/// # Errors
/// If it does not run.
pub fn kill(testbed: &Testbed, part: Part) -> Result<()> {
    signal(testbed, part, Signal::KILL)?;
    for process in processes(testbed, part) {
        while process.alive() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
    Ok(())
}

/// Which system call of a thread is its last.
#[derive(Debug, Clone)]
pub struct KillAt<'a> {
    /// `fsync`, or several with commas between.
    pub calls: &'a str,
    /// The how-manieth of them, counted per thread, from 1.
    pub number: u32,
}

impl KillAt<'_> {
    /// The words to put before a command so that it dies there.
    #[must_use]
    pub fn wrapper(&self) -> Vec<String> {
        let inject = format!("inject={}:signal=SIGKILL:when={}", self.calls, self.number);
        tracer(self.calls, &inject)
    }
}

/// strace that says nothing and injects.
fn tracer(calls: &str, inject: &str) -> Vec<String> {
    let trace = format!("trace={calls}");
    ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", inject, "--"].map(str::to_owned).to_vec()
}

/// Kills the part, then starts it so that it dies at a system call. It may die before it is ready: then the
/// error of the start is what was asked for.
///
/// # Errors
/// If it does not become ready.
pub fn kill_at(testbed: &mut Testbed, part: Part, at: &KillAt<'_>) -> Result<()> {
    kill(testbed, part)?;
    testbed.restart_under(part, &at.wrapper())
}

/// The node's packets to the API server vanish for as long as this value lives; the administrator's do not.
#[derive(Debug)]
pub struct CutOff<'a> {
    testbed: &'a Testbed,
}

const RULE: &[&str] = &[
    "OUTPUT",
    "-p",
    "tcp",
    "-d",
    "10.240.0.10",
    "--dport",
    "6443",
    "-m",
    "comment",
    "--comment",
    "cut",
    "-j",
    "DROP",
];

/// Cuts node0, and every client with its kubeconfig, off from the API server.
///
/// # Errors
/// If the kernel does not take the rule.
pub fn cut_off_node(testbed: &Testbed) -> Result<CutOff<'_>> {
    program::run(testbed.command("iptables").args(["-w", "-I"]).args(RULE))?;
    Ok(CutOff { testbed })
}

impl Drop for CutOff<'_> {
    fn drop(&mut self) {
        // The rule goes with the testbed's network namespace at the latest.
        let _ = program::run(self.testbed.command("iptables").args(["-w", "-D"]).args(RULE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapper_ends_where_the_command_begins() {
        let words = KillAt { calls: "fsync,write", number: 3 }.wrapper();
        assert_eq!(words.first().map(String::as_str), Some("strace"));
        assert_eq!(words.last().map(String::as_str), Some("--"));
        assert!(words.contains(&"inject=fsync,write:signal=SIGKILL:when=3".to_owned()));
    }
}
