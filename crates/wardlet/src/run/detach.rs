//! `run --detach`: a process in the background runs the command, and this one waits until the pods have been started
//! or do not start.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agent::StartReport;
use telemetry::log::LoggedError;
use tokio::net::unix::pipe::Receiver;

use super::signals::Signals;
use crate::failure::Failure;
use crate::{log, output, words};

const PAUSE: Duration = Duration::from_millis(50);

/// Environment variable of the process in the background: the path of its log, which is removed after a
/// successful run.
pub(crate) const STAYS: &str = "WARDLET_STAYS";

/// Starts this command again in the background: in a process group of its own, with stderr in a log file.
pub(crate) fn start(state: &Path) -> Result<(Child, std::path::PathBuf), Failure> {
    let failed = |what: &str, e: std::io::Error| Failure::unknown(format!("cannot {what}: {e}"));
    let own = std::env::current_exe().map_err(|e| failed("find this program", e))?;
    std::fs::create_dir_all(state).map_err(|e| failed("make the state directory", e))?;
    let log = state.join(format!("run-{}.log", std::process::id()));
    let file = File::create(&log).map_err(|e| failed("make a log", e))?;
    let mut command = Command::new(own);
    command.args(std::env::args_os().skip(1)).env(STAYS, &log).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
    Ok((command.spawn().map_err(|e| failed("start in the background", e))?, log))
}

/// Waits until the process in the background reports how the start of its pods came out, or has ended. Copies its log
/// to stderr. A signal stops the pods.
///
/// # Errors
/// The last error in the log, if the process has failed.
pub(crate) async fn await_start(mut child: Child, log: &Path) -> Result<StartReport, Failure> {
    let mut signals = Signals::catch()?;
    let failed = |e| Failure::unknown(format!("cannot read from the process in the background: {e}"));
    let reports = child.stdout.take().map(|pipe| Receiver::from_owned_fd(pipe.into())).transpose();
    let reports = reports.map_err(failed)?;
    let (mut said, mut is_ending) = (0, false);
    loop {
        let is_over = child.try_wait().ok().flatten();
        let report = reports.as_ref().and_then(read).filter(|_| !is_ending);
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let new = text.get(said..).unwrap_or_default();
        let whole = new.rfind('\n').map_or(0, |end| end.saturating_add(1));
        let is_word = |line: &&str| !LoggedError::is_at(line) && !line.is_empty();
        new.get(..whole).unwrap_or_default().lines().filter(is_word).for_each(log::write_line);
        said = said.saturating_add(whole);
        match (report, is_over) {
            (Some(report), _) => return Ok(report),
            (None, Some(status)) if status.success() => return Ok(StartReport::Up),
            (None, Some(status)) => return Err(last_words(log, status)),
            (None, None) => {}
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = signals.next() => {
                is_ending = true;
                end(&child);
            }
        }
    }
}

/// Reports the start of the pods to the process that waits for it in the foreground.
pub(crate) fn report(report: &StartReport) {
    // That process may have been interrupted.
    let _ = serde_json::to_string(report).map(|text| output::write(&text));
}

/// The report, once it is there: one write, shorter than a pipe's buffer.
fn read(pipe: &Receiver) -> Option<StartReport> {
    let mut bytes = [0; 4096];
    let length = pipe.try_read(&mut bytes).ok()?;
    serde_json::from_slice(bytes.get(..length)?).ok()
}

/// Stops all pods with SIGTERM to the process in the background: this one was interrupted before they were
/// up.
fn end(child: &Child) {
    words::say("ending all pods");
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // The caller notices by `try_wait` if the process has ended.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// The last error and hint in the log of the process in the background. Removes the log.
fn last_words(log: &Path, status: std::process::ExitStatus) -> Failure {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let _ = std::fs::remove_file(log);
    let ended = || LoggedError { message: "the pods ended before they were all up".to_owned(), hint: None };
    let LoggedError { message, hint } = LoggedError::last(&said).unwrap_or_else(ended);
    hint.into_iter().fold(Failure::refused(format!("{message} ({status})")), Failure::with_hint)
}
