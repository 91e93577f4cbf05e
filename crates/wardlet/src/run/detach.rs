//! The same command by a process that stays.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agent::Stored;

use super::signals::Signals;
use crate::failure::Failure;
use crate::words;

const PAUSE: Duration = Duration::from_millis(50);

/// What a process that stays is told by: the path of the file for its words, gone with it.
pub(crate) const STAYS: &str = "WARDLET_STAYS";

/// Starts this command anew, out of reach of the terminal; its words go to a file.
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

/// What has become of pods that were left to a process in the background.
pub(crate) enum Left {
    /// They are up.
    Up(Vec<Stored>),
    /// They have all ended, well, before they were seen.
    Ended,
}

/// Waits until these pods are up, or the process that looks after them has ended. What it says meanwhile is said.
pub(crate) async fn await_up(
    state: &Path,
    names: &[(String, String)],
    (child, log): (&mut Child, &Path),
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
        let is_word =
            |line: &&str| !line.starts_with("error:") && !line.starts_with("hint:") && !line.is_empty();
        new.get(..whole).unwrap_or_default().lines().filter(is_word).for_each(words::line);
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

/// Whoever was told to end before the pods are up wants none of them.
fn end(child: &Child) {
    words::say("ending all pods");
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // One that has ended is seen by its status.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

fn up(state: &Path, names: &[(String, String)]) -> Result<Vec<Stored>, Failure> {
    let (found, _) = agent::stored(state)?;
    let is_meant = |pod: &Stored| {
        let called = (pod.record.namespace.as_str(), pod.record.name.as_str());
        names.iter().any(|(namespace, name)| (namespace.as_str(), name.as_str()) == called)
    };
    let is_up = |pod: &Stored| pod.is_tended && pod.status.as_ref().is_some_and(agent::PodStatus::is_up);
    Ok(found.into_iter().filter(|pod| is_meant(pod) && is_up(pod)).collect())
}

/// Its last error, as if it were ours.
fn last_words(log: &Path, status: std::process::ExitStatus) -> Failure {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let _ = std::fs::remove_file(log);
    let last = |start: &str| said.lines().rev().find_map(|line| line.strip_prefix(start)).map(str::to_owned);
    let text = last("error: ").unwrap_or_else(|| "the pods ended before they were all up".to_owned());
    let failure = Failure::refused(format!("{text} ({status})"));
    last("hint: ").into_iter().fold(failure, Failure::with_hint)
}
