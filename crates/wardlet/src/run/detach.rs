//! `run --detach`: a process in the background runs the command, and this one waits until the pods are up.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agent::Stored;

use super::signals::Signals;
use crate::failure::Failure;
use crate::{log, words};

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
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    Ok((command.spawn().map_err(|e| failed("start in the background", e))?, log))
}

/// The state of the pods of a process in the background.
pub(crate) enum Left {
    /// All pods are up.
    Up(Vec<Stored>),
    /// All pods have succeeded before they were seen as up.
    Ended,
}

/// Waits until these pods are up, or the process that supervises them has ended. Copies that process's log to
/// stderr. A signal stops the pods.
///
/// # Errors
/// The last error in the log, if the process has failed.
pub(crate) async fn await_up(
    state: &Path,
    names: &[(String, String)],
    child: &mut Child,
    log: &Path,
) -> Result<Left, Failure> {
    let mut signals = Signals::catch()?;
    let (mut said, mut is_ending) = (0, false);
    loop {
        let is_over = child.try_wait().ok().flatten();
        let up = up(state, names)?;
        if up.len() == names.len() && !is_ending {
            return Ok(Left::Up(up));
        }
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let new = text.get(said..).unwrap_or_default();
        let whole = new.rfind('\n').map_or(0, |end| end.saturating_add(1));
        let is_word = |line: &&str| {
            let is_error =
                line.starts_with("error:") || line.starts_with("hint:") || error_in_json(line).is_some();
            !is_error && !line.is_empty()
        };
        new.get(..whole).unwrap_or_default().lines().filter(is_word).for_each(log::write_line);
        said = said.saturating_add(whole);
        match is_over {
            Some(status) if status.success() => return Ok(Left::Ended),
            Some(status) => return Err(last_words(log, status)),
            None => {}
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = signals.next() => {
                is_ending = true;
                end(child);
            }
        }
    }
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

fn up(state: &Path, names: &[(String, String)]) -> Result<Vec<Stored>, Failure> {
    let (found, _) = agent::stored(state)?;
    let is_meant = |pod: &Stored| {
        names.iter().any(|(namespace, name)| (namespace, name) == (&pod.record.namespace, &pod.record.name))
    };
    let is_up = |pod: &Stored| pod.is_managed && pod.status.as_ref().is_some_and(agent::PodStatus::is_up);
    Ok(found.into_iter().filter(|pod| is_meant(pod) && is_up(pod)).collect())
}

/// The last error and hint in the log of the process in the background. Removes the log.
fn last_words(log: &Path, status: std::process::ExitStatus) -> Failure {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let _ = std::fs::remove_file(log);
    let last = |start: &str| said.lines().rev().find_map(|line| line.strip_prefix(start)).map(str::to_owned);
    let in_json = said.lines().rev().find_map(error_in_json);
    let (text, hint) =
        in_json.map_or_else(|| (last("error: "), last("hint: ")), |(text, hint)| (Some(text), hint));
    let text = text.unwrap_or_else(|| "the pods ended before they were all up".to_owned());
    let failure = Failure::refused(format!("{text} ({status})"));
    hint.into_iter().fold(failure, Failure::with_hint)
}

/// The message and the hint of an error that is logged as JSON.
fn error_in_json(line: &str) -> Option<(String, Option<String>)> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let is_error = line.get("level")?.as_str() == Some("ERROR");
    let message = line.get("message").and_then(text).filter(|_| is_error)?;
    Some((message, line.get("fields").and_then(|fields| fields.get("hint")).and_then(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_found_in_a_log_of_json() {
        let line = r#"{"level":"ERROR","message":"no root","fields":{"hint":"be root"}}"#;
        assert_eq!(error_in_json(line), Some(("no root".to_owned(), Some("be root".to_owned()))));
        for other in [r#"{"level":"WARN","message":"x"}"#, "error: x", "1", ""] {
            assert_eq!(error_in_json(other), None, "{other}");
        }
    }
}
