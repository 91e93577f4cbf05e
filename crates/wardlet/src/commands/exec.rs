use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use agent::{InstanceId, Owned, Stored};
use cri::client::Client;
use cri::{Endpoint, ExecRequest, within};
use report::Pieces;
use streaming::client::{Output, Session as Command, run as run_at};
use streaming::terminal::{Raw, input, is_interactive, sizes};

use super::Session;
use crate::cli::ExecArgs;
use crate::failure::Failure;
use crate::run::signals::Signals;
use crate::run::{find, threads};
use crate::words;

/// How long the runtime may take to answer; the command itself runs for as long as it likes.
const DEADLINE: Duration = Duration::from_secs(120);
/// The exit code of a process that SIGTERM ended.
const TERMINATED: u8 = 143;

pub(super) fn run(session: &Session, args: &ExecArgs) -> Result<ExitCode, Failure> {
    if args.stdin && args.tty && !is_interactive() {
        return Err(
            Failure::unknown("-t needs a terminal, and standard input is none").with_hint("leave out -t")
        );
    }
    let pod = find::one(session.node.state_dir(), &args.pod)?;
    let spec = pod.record.pod.spec.clone().unwrap_or_default();
    let all = || spec.init_containers.iter().flatten().chain(&spec.containers).map(|c| c.name.as_str());
    let container = match args.container.as_deref() {
        Some(named) if !all().any(|name| name == named) => {
            return Err(find::no_container(named, &all().collect::<Vec<_>>().join(", ")));
        }
        Some(named) => named,
        None => spec.containers.first().map(|c| c.name.as_str()).unwrap_or_default(),
    };
    match threads()?.block_on(exec(session, &pod, container, args)) {
        // The supervisors of pods serve the built-in runtime.
        Err(failure) if !pod.is_managed => {
            Err(failure.with_hint("no supervisor runs for this pod: run `wardlet run` with its file again"))
        }
        done => done,
    }
}

async fn exec(session: &Session, pod: &Stored, name: &str, args: &ExecArgs) -> Result<ExitCode, Failure> {
    let endpoint: Endpoint = pod.record.endpoint.parse()?;
    let client = Client::connect(&endpoint).await?;
    let own = Owned::new(InstanceId::of(session.node.state_dir())?, pod.record.root_dir.clone());
    let found = own.running_container(&client, &pod.record.uid, name).await?;
    let ended = || Failure::refused(format!("container {name} does not run"));
    let request = ExecRequest {
        container_id: found.ok_or_else(|| ended().with_hint("`wardlet ps -o json` shows why"))?,
        cmd: args.command.clone(),
        tty: args.tty,
        stdin: args.stdin,
        stdout: true,
        // A terminal has one output.
        stderr: !args.tty,
    };
    let url = within(DEADLINE, "Exec", client.runtime().exec(request)).await?.url;
    let mut signals = Signals::catch()?;
    let command = Command {
        stdin: args.stdin.then(input).transpose().map_err(|e| no_terminal(&e))?,
        sizes: args.tty.then(sizes).transpose().map_err(|e| no_terminal(&e))?,
        output: Sink::new(args).into_output(),
    };
    let _raw = (args.stdin && args.tty).then(Raw::take).transpose().map_err(|e| no_terminal(&e))?;
    tokio::select! {
        ended = run_at(&url, command) => match ended {
            Ok(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
            Err(e) => {
                let failure = Failure::unknown(e.to_string());
                let code = e.shell_code().ok_or_else(|| failure.clone())?;
                words::failure(&failure);
                Ok(ExitCode::from(code))
            }
        },
        () = signals.next() => Ok(ExitCode::from(TERMINATED)),
    }
}

fn no_terminal(error: &std::io::Error) -> Failure {
    Failure::unknown(format!("cannot use the terminal: {error}"))
}

/// Where a command's output goes. A command that was given our terminal may use it as it likes; the output of any
/// other is shown on a terminal without control characters, and goes elsewhere as it is.
struct Sink {
    stdout: Option<Pieces>,
    stderr: Option<Pieces>,
}

impl Sink {
    fn new(args: &ExecArgs) -> Self {
        let shown = |is_terminal: bool| (is_terminal && !args.tty).then(Pieces::default);
        Self {
            stdout: shown(std::io::stdout().is_terminal()),
            stderr: shown(std::io::stderr().is_terminal()),
        }
    }

    fn into_output(mut self) -> impl FnMut(Output, &[u8]) {
        move |output, bytes| {
            let pieces = match output {
                Output::Stdout => &mut self.stdout,
                Output::Stderr => &mut self.stderr,
            };
            match pieces {
                Some(pieces) => write(output, pieces.next(bytes).as_bytes()),
                None => write(output, bytes),
            }
        }
    }
}

fn write(output: Output, bytes: &[u8]) {
    // A reader that has seen enough is no reason to fail.
    let _ = match output {
        Output::Stdout => {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        Output::Stderr => std::io::stderr().lock().write_all(bytes),
    };
}
