//! Proofs of `wardlet verify`, made while the page is open. It runs as a program of its own: a thread that waits for a
//! filesystem of a pod may be impossible to kill, and must not be one of the agent's.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ::node::Node;
use report::pages::{IdUse, LastProof, Proof, uses_of_others};
use rustix::fs::{MemfdFlags, memfd_create};
use tracing::debug;

/// How long it may take.
const DEADLINE: Duration = Duration::from_secs(120);
/// How often it is checked whether it has ended.
const PAUSE: Duration = Duration::from_millis(50);
/// More than this is not read of what it writes.
const LARGEST: u64 = 32 << 20;

/// User IDs, then group IDs, that others than the ledger's holders have.
type Others = [Vec<IdUse>; 2];

/// Makes a proof when the last one is old and the page is asked for.
pub(super) struct Proofs {
    verify: Program,
    /// What others than the ledger's holders have, by a census.
    census: Box<dyn Fn() -> Result<Others, String> + Send + Sync>,
    /// How old a proof may become; `None` for no proofs.
    every: Option<Duration>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the last one was begun.
    begun: Option<Instant>,
    is_running: bool,
    last: LastProof,
    others: Others,
}

/// A program with its arguments.
struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    deadline: Duration,
}

impl Proofs {
    /// Proofs of this node, by this program.
    pub(super) fn of(node: &Node) -> Self {
        let words = ["verify", "--output", "json", "--state-dir"];
        let mut arguments: Vec<OsString> = words.map(OsString::from).to_vec();
        arguments.push(OsString::from(node.state_dir()));
        arguments.push(OsString::from("--host-root"));
        arguments.push(node.host_root().path("/").into_os_string());
        if let Some(file) = &node.config.file {
            arguments.push(OsString::from("--config"));
            arguments.push(OsString::from(file));
        }
        let verify = Program { path: "/proc/self/exe".into(), arguments, deadline: DEADLINE };
        let seconds = node.config.settings.agent.page.proof_seconds;
        let every = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        let of_node = node.clone();
        let census = move || -> Result<Others, String> {
            let taken = of_node.census().take().map_err(|error| error.to_string())?;
            Ok(uses_of_others(&taken))
        };
        Self::new(verify, every, Box::new(census))
    }

    fn new(
        verify: Program,
        every: Option<Duration>,
        census: Box<dyn Fn() -> Result<Others, String> + Send + Sync>,
    ) -> Self {
        Self { verify, census, every, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last proof, and what others have of the host IDs. Begins another proof if it is time.
    pub(super) fn last(self: &Arc<Self>) -> (LastProof, Others) {
        let Some(every) = self.every else { return (LastProof::Disabled, Others::default()) };
        let mut state = self.state();
        if !state.is_running && state.begun.is_none_or(|begun| begun.elapsed() >= every) {
            (state.begun, state.is_running) = (Some(Instant::now()), true);
            let proofs = Arc::clone(self);
            let spawned = thread::Builder::new().name("proof".to_owned()).spawn(move || proofs.make());
            if let Err(cause) = spawned {
                state.is_running = false;
                state.last = failed(format!("no thread can be started: {cause}"));
            }
        }
        (state.last.clone(), state.others.clone())
    }

    fn make(&self) {
        let others = (self.census)().unwrap_or_else(|cause| {
            debug!("other users of host IDs are not shown on the page: {cause}");
            Others::default()
        });
        let proof = self.verify.output().and_then(|text| {
            Proof::read(&text).map_err(|error| format!("wardlet verify wrote something else: {error}"))
        });
        let mut state = self.state();
        state.is_running = false;
        state.others = others;
        state.last = proof.map_or_else(failed, LastProof::Done);
    }
}

fn failed(cause: String) -> LastProof {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    LastProof::Failed { time: now.as_secs(), cause }
}

impl Program {
    /// What it writes to its standard output. The exit code says what it found, so it is no error.
    fn output(&self) -> Result<String, String> {
        let name = self.path.display();
        let (output, status) = self.run().map_err(|cause| format!("{name} cannot be run: {cause}"))?;
        let mut text = String::new();
        let read = output.rewind_and_take().and_then(|mut file| file.read_to_string(&mut text));
        read.map_err(|cause| format!("what {name} wrote cannot be read: {cause}"))?;
        if text.is_empty() { Err(format!("{name} wrote nothing and ended with {status}")) } else { Ok(text) }
    }

    /// Runs it to its end. Its output goes to memory: a pipe could be held open by a process of it that cannot be killed.
    fn run(&self) -> io::Result<(Written, ExitStatus)> {
        let output = File::from(memfd_create("proof", MemfdFlags::CLOEXEC)?);
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = command.stdout(output.try_clone()?).spawn()?;
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((Written(output), status));
            }
            if begun.elapsed() >= self.deadline {
                child.kill()?;
                child.wait()?;
                let seconds = self.deadline.as_secs();
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("it took more than {seconds} s"),
                ));
            }
            thread::sleep(PAUSE);
        }
    }
}

/// What a program has written, its offset at the end.
struct Written(File);

impl Written {
    fn rewind_and_take(self) -> io::Result<io::Take<File>> {
        let Self(mut file) = self;
        file.rewind()?;
        Ok(file.take(LARGEST))
    }
}

#[cfg(test)]
mod tests {
    use ids::HostSpan;
    use report::pages::BlockState;

    use super::*;

    fn shell(script: &str) -> Program {
        let arguments = ["-c", script].map(OsString::from).to_vec();
        Program { path: "/bin/sh".into(), arguments, deadline: Duration::from_secs(20) }
    }

    fn one_other() -> Result<Others, String> {
        let used = IdUse {
            ids: HostSpan::new(65_536, 1).unwrap(),
            state: BlockState::Other,
            holder: "c1".to_owned(),
            pod: None,
            since: None,
            note: None,
        };
        Ok([vec![used], Vec::new()])
    }

    fn proofs(script: &str, every: Option<Duration>) -> Arc<Proofs> {
        Arc::new(Proofs::new(shell(script), every, Box::new(one_other)))
    }

    /// The outcome of the first proof.
    fn first(proofs: &Arc<Proofs>) -> (LastProof, Others) {
        let begun = Instant::now();
        loop {
            let (last, others) = proofs.last();
            if last != LastProof::None {
                return (last, others);
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "no proof");
            thread::sleep(PAUSE);
        }
    }

    #[test]
    fn a_proof_is_what_the_program_writes_whatever_its_exit_code_is() {
        let script =
            r#"echo '{"verdict": "violated", "pods": [{"uid": "u-1", "verdict": "violated"}]}'; exit 1"#;
        let (last, others) = first(&proofs(script, Some(Duration::from_secs(600))));
        let LastProof::Done(proof) = last else { panic!("{last:?}") };
        assert_eq!((proof.verdict.as_str(), proof.pods[0].uid.as_str()), ("violated", "u-1"));
        assert_eq!((others[0].len(), others[1].len()), (1, 0));
    }

    #[test]
    fn a_program_that_writes_nothing_or_something_else_is_a_failure_with_its_cause() {
        for (script, words) in [("exit 2", "wrote nothing"), ("echo no JSON", "something else")] {
            let (last, _) = first(&proofs(script, Some(Duration::from_secs(600))));
            let LastProof::Failed { cause, .. } = last else { panic!("{last:?}") };
            assert!(cause.contains(words), "{cause}");
        }
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let program = Program { deadline: Duration::from_millis(200), ..shell("sleep 600") };
        let begun = Instant::now();
        assert!(program.output().unwrap_err().contains("took more than"));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_proof_is_made_when_the_last_one_is_old_and_never_if_it_is_disabled() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("ran");
        let script = format!("echo x >> {}; echo '{{}}'", mark.display());
        let made = proofs(&script, Some(Duration::from_secs(600)));
        first(&made);
        for _ in 0..20 {
            made.last();
        }
        assert_eq!(std::fs::read_to_string(&mark).unwrap(), "x\n");
        let disabled = proofs(&script, None);
        assert_eq!(disabled.last().0, LastProof::Disabled);
    }
}
