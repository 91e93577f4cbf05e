//! The same command by a process that stays.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agent::Stored;

use super::find;
use crate::failure::Failure;

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

/// Waits until these pods are up, or the process that looks after them has ended.
pub(crate) fn await_up(
    state: &Path,
    names: &[(String, String)],
    (child, log): (&mut Child, &Path),
) -> Result<Vec<Stored>, Failure> {
    loop {
        let found = find::all(state)?;
        let is_meant = |pod: &&Stored| {
            names
                .iter()
                .any(|(namespace, name)| pod.record.namespace == *namespace && pod.record.name == *name)
        };
        let up: Vec<Stored> = found
            .iter()
            .filter(is_meant)
            .filter(|pod| pod.is_tended && pod.status.as_ref().is_some_and(agent::PodStatus::is_up))
            .cloned()
            .collect();
        if up.len() == names.len() {
            return Ok(up);
        }
        if let Ok(Some(status)) = child.try_wait() {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            let last =
                said.lines().rev().find(|line| line.starts_with("error:")).unwrap_or("error: it ended");
            let _ = std::fs::remove_file(log);
            let text = last.trim_start_matches("error: ");
            return Err(Failure::refused(format!("{text} ({status})")));
        }
        std::thread::sleep(PAUSE);
    }
}
