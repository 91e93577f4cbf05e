//! A program that speaks as OCI runtimes do.

use std::fs;
use std::path::Path;
use std::process::Command;

use kernel::Process;
use serde_json::Value;

use super::Prepared;
use crate::failure::Failure;
use crate::files::CONFIG;

/// Has it create and start the container, which has this program's standard streams.
pub(super) fn start(prepared: &Prepared<'_>, path: &Path, args: &[String]) -> Result<Process, Failure> {
    let state = prepared.run_dir.engine();
    let (log, pid_file) = (state.join("log.json"), state.join("pid"));
    // The engine's bundle is a directory with the configuration in it, and nothing else of ours.
    fs::copy(prepared.dir.join(CONFIG), state.join(CONFIG))
        .map_err(|cause| Failure::during("cannot write the engine's configuration", cause))?;
    let mut command = Command::new(path);
    command.args(args).arg("--root").arg(&state).arg("--log").arg(&log).args(["--log-format", "json"]);
    command.args(["run", "--detach", "--bundle"]).arg(&state).arg("--pid-file").arg(&pid_file);
    if let Some(console) = prepared.console {
        command.arg("--console-socket").arg(console);
    }
    command.arg(&prepared.job.start.id);
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let status = command
        .status()
        .map_err(|cause| Failure::during(&format!("cannot run {}", path.display()), cause))?;
    if !status.success() {
        let words = last_words(&log).unwrap_or_else(|| status.to_string());
        return Err(Failure::said(&name, &words));
    }
    let pid = fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse().ok());
    let pid = pid.ok_or_else(|| Failure::of(format!("{name} did not say which process it started")))?;
    Ok(Process::open(pid)?)
}

/// The last error in an engine's log.
pub(crate) fn last_words(log: &Path) -> Option<String> {
    let text = fs::read_to_string(log).ok()?;
    text.lines().rev().find_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let is_error = line
            .get("level")
            .and_then(Value::as_str)
            .is_none_or(|level| level != "info" && level != "debug" && level != "warning");
        is_error.then(|| line.get("msg").and_then(Value::as_str).map(str::to_owned))?
    })
}
