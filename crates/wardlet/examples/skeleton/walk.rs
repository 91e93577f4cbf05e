use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context, bail};
use kernel::PrivateMountNamespace;
use ledger::Outcome;

use crate::container::{Container, wait_readable};
use crate::evidence::{self, Evidence};
use crate::lease::{Books, Leased};
use crate::needs::{self, Tools};
use crate::report::Report;
use crate::scratch::{self, NAME, Scratch};
use crate::stage::Stage;
use crate::verdict::{self, Check};
use crate::words::say;
use crate::{cgroup, config};

/// How long the container is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until all has been seen.
    Seen,
    /// Then on, until somebody presses Enter.
    Enter,
}

/// The whole way. What it leaves behind is nothing, also where it fails.
pub(crate) fn walk(until: Until, state_dir: &Path) -> anyhow::Result<()> {
    let tools = needs::find()?;
    kernel::interrupt::catch()?;
    scratch::sweep()?;
    cgroup::sweep();
    let books = Books::open(state_dir)?;
    let leased = books.lease()?;
    say(&format!("leased host IDs {}", leased.uids));
    let outcome = run_in(leased, tools, until);
    let returned = give_back(&books);
    outcome.and(returned)
}

fn run_in(leased: Leased, tools: Tools, until: Until) -> anyhow::Result<()> {
    let scratch = Scratch::new(leased.gids.base())?;
    let run = Run { tools, leased, scratch, name: format!("{NAME}-{}", std::process::id()), until };
    let outcome = run.in_private_namespace();
    let cleaned = run.clean_up();
    outcome.and(cleaned)
}

/// The ledger looks for itself: the block rests if nothing of it is left, and else goes on draining.
fn give_back(books: &Books) -> anyhow::Result<()> {
    match books.release()?.map(|verdict| verdict.outcome) {
        Some(Outcome::Quarantined { .. }) => say("gave the block back: nothing uses it, it rests"),
        Some(Outcome::InUse(by)) => say(&format!("gave the block back: draining, {}", by.join("; "))),
        _ => say("gave the block back"),
    }
    Ok(())
}

struct Run {
    tools: Tools,
    leased: Leased,
    scratch: Scratch,
    name: String,
    until: Until,
}

impl Run {
    /// Back in the host's mount namespace on return: there nothing is mounted on the scratch
    /// directory, so its removal can reach nothing else.
    fn in_private_namespace(&self) -> anyhow::Result<()> {
        let host_mounts = File::open("/proc/thread-self/mountinfo").context("cannot open the mount table")?;
        let namespace = PrivateMountNamespace::enter()?;
        let outcome = self.play(&host_mounts, &namespace);
        namespace.leave()?;
        outcome
    }

    fn play(&self, host_mounts: &File, namespace: &PrivateMountNamespace) -> anyhow::Result<()> {
        let stage = Stage::set(&self.scratch, &self.tools.busybox)?;
        let before = evidence::before(&stage)?;
        let given = stage.mount(&self.scratch, self.leased, namespace)?;
        say(&format!(
            "mounted root (layers given {given}) and volume, idmapped, in a mount namespace of their own"
        ));
        let spec = config::specification(&stage, self.leased, &self.name);
        let mut container = Container::start(&self.tools.runc, self.scratch.path(), &self.name, &spec)?;
        let inside = container.listen()?;
        let pid = container.pid()?;
        say(&format!("started container {} as process {pid}\n", self.name));
        let mut seen = Evidence::gather(pid, inside, &stage)?;
        seen.compare(before)?;
        seen.search(host_mounts, self.scratch.path())?;
        let checks = verdict::judge(&seen, self.leased)?;
        Report { leased: self.leased, seen: &seen, checks: &checks }
            .write(&mut io::stdout().lock())
            .context("cannot write the report")?;
        if self.until == Until::Enter {
            hold(pid)?;
        }
        container.finish()?;
        all_hold(&checks)
    }

    fn clean_up(self) -> anyhow::Result<()> {
        self.scratch.remove()?;
        match cgroup::of(&self.name).first() {
            Some(left) => bail!("{} is left behind", left.display()),
            None => Ok(()),
        }
    }
}

fn hold(pid: u32) -> anyhow::Result<()> {
    say(&format!("\nlook around, such as in /proc/{pid}/root; Enter ends it"));
    wait_readable(io::stdin())
}

fn all_hold(checks: &[Check]) -> anyhow::Result<()> {
    let wrong: Vec<&str> = checks.iter().filter(|check| !check.holds()).map(|check| check.claim).collect();
    if wrong.is_empty() { Ok(()) } else { bail!("does not hold: {}", wrong.join("; ")) }
}
