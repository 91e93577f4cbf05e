//! Which subordinate IDs the administrator gave to the pool.
//!
//! `/etc/subuid` and `/etc/subgid` are read here; where `/etc/nsswitch.conf` names another source, `getsubids` is
//! called. Neither replaces the other: an answer from the wrong source would hand out another user's IDs.

use std::io;
use std::path::Path;
use std::process::Command;

use census::HostRoot;
use ids::HostSpan;
use ids::parse::subid::{SubidProblem, parse_getsubids, parse_subids};
use serde::Serialize;

/// Whose entries are taken unless configured otherwise; what the kubelet does.
pub const DEFAULT_OWNER: &str = "kubelet";
const GETSUBIDS: &str = "/usr/bin/getsubids";
const NSSWITCH: &str = "/etc/nsswitch.conf";
const SUBUID: &str = "/etc/subuid";
const SUBGID: &str = "/etc/subgid";

/// One run of IDs given to the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubidRange {
    /// Which.
    pub ids: HostSpan,
    /// Where that is written: `/etc/subuid line 3`.
    pub origin: String,
}

/// All that was given to the pool; neither side is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubidSource {
    /// User IDs.
    pub uids: Vec<SubidRange>,
    /// Group IDs.
    pub gids: Vec<SubidRange>,
}

/// Why the pool's subordinate IDs are not known.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file is there and cannot be read.
    #[error("cannot read {file}: {source}")]
    Unreadable {
        /// Which.
        file: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// A line of this owner cannot be used.
    #[error("{file} {problem}")]
    BadLine {
        /// The file or the command line that gave it.
        file: String,
        /// The line and its cause.
        problem: SubidProblem,
    },
    /// User IDs but no group IDs, or the other way round.
    #[error("{owner} has an entry in {present} and none in {missing}")]
    OneSided {
        /// Whose entries.
        owner: String,
        /// Where there is one.
        present: &'static str,
        /// Where there is none.
        missing: &'static str,
    },
    /// nsswitch names a source, and the host's own `getsubids` is out of reach.
    #[error(
        "{NSSWITCH} takes subordinate IDs from {service:?}, which can be asked only on the host itself, not under {root}"
    )]
    ForeignRoot {
        /// What nsswitch names.
        service: String,
        /// The host root.
        root: String,
    },
    /// nsswitch names a source, and `getsubids` gives no answer.
    #[error("{NSSWITCH} takes subordinate IDs from {service:?}, and {command} gave no answer: {cause}")]
    NoAnswer {
        /// What nsswitch names.
        service: String,
        /// What was run.
        command: String,
        /// How it failed.
        cause: String,
    },
}

impl SourceError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unreadable { file, .. } => format!("make {file} readable, or run as root"),
            Self::BadLine { problem, .. } => problem.hint(),
            Self::OneSided { owner, missing, .. } => format!("add a line for {owner} to {missing}"),
            Self::ForeignRoot { .. } => "configure the pool explicitly".into(),
            Self::NoAnswer { .. } => format!(
                "install getsubids (package uidmap or shadow-utils), give the owner IDs in that source, \
                 or configure the pool explicitly; {SUBUID} is not used instead"
            ),
        }
    }
}

/// The entries of `configured_owner` (or of `kubelet`). `None` if it has none at all. No account of
/// that name needs to exist.
pub fn discover(
    host_root: &HostRoot,
    configured_owner: Option<&str>,
) -> Result<Option<SubidSource>, SourceError> {
    let owner = configured_owner.unwrap_or(DEFAULT_OWNER);
    match foreign_service(&text(host_root, NSSWITCH)?) {
        None => from_files(host_root, owner),
        Some(service) if host_root.is_own() => from_getsubids(Path::new(GETSUBIDS), &service, owner),
        Some(service) => {
            let root = host_root.path("/").display().to_string();
            Err(SourceError::ForeignRoot { service, root })
        }
    }
}

fn text(root: &HostRoot, file: &'static str) -> Result<String, SourceError> {
    match root.read(file) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(SourceError::Unreadable { file, source }),
    }
}

/// What the `subid:` line names beside `files`.
fn foreign_service(nsswitch: &str) -> Option<String> {
    let lines = nsswitch.lines().map(|l| l.split('#').next().unwrap_or_default().trim());
    let services = lines.filter_map(|l| l.strip_prefix("subid:")).next_back()?;
    let named = services.split_ascii_whitespace().filter(|s| !s.starts_with('['));
    named.map(str::to_owned).find(|s| s != "files")
}

fn from_files(root: &HostRoot, owner: &str) -> Result<Option<SubidSource>, SourceError> {
    let uids = ranges_in(root, SUBUID, owner)?;
    let gids = ranges_in(root, SUBGID, owner)?;
    both_or_none(owner, uids, gids)
}

fn ranges_in(root: &HostRoot, file: &'static str, owner: &str) -> Result<Vec<SubidRange>, SourceError> {
    let subids = parse_subids(&text(root, file)?);
    if let Some(problem) = subids.problems_of(owner).next() {
        return Err(SourceError::BadLine { file: file.into(), problem: problem.clone() });
    }
    let origin = |line| format!("{file} line {line}");
    Ok(subids.of(owner).map(|e| SubidRange { ids: e.ids, origin: origin(e.line) }).collect())
}

fn both_or_none(
    owner: &str,
    uids: Vec<SubidRange>,
    gids: Vec<SubidRange>,
) -> Result<Option<SubidSource>, SourceError> {
    let one_sided =
        |present, missing| Err(SourceError::OneSided { owner: owner.to_owned(), present, missing });
    match (uids.is_empty(), gids.is_empty()) {
        (true, true) => Ok(None),
        (false, true) => one_sided(SUBUID, SUBGID),
        (true, false) => one_sided(SUBGID, SUBUID),
        (false, false) => Ok(Some(SubidSource { uids, gids })),
    }
}

fn from_getsubids(program: &Path, service: &str, owner: &str) -> Result<Option<SubidSource>, SourceError> {
    let uids = ask(program, service, &[owner])?;
    let gids = ask(program, service, &["-g", owner])?;
    both_or_none(owner, uids, gids)
}

fn ask(program: &Path, service: &str, arguments: &[&str]) -> Result<Vec<SubidRange>, SourceError> {
    let command = format!("{} {}", program.display(), arguments.join(" "));
    let no_answer = |cause: String| SourceError::NoAnswer {
        service: service.to_owned(),
        command: command.clone(),
        cause,
    };
    let output = Command::new(program).args(arguments).output().map_err(|e| no_answer(e.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(no_answer(format!("{} ({})", said.trim(), output.status)));
    }
    let printed = parse_getsubids(&String::from_utf8_lossy(&output.stdout))
        .map_err(|problem| SourceError::BadLine { file: command.clone(), problem })?;
    let origin = |index| format!("{command} line {index}");
    Ok(printed.into_iter().zip(1..).map(|(ids, i)| SubidRange { ids, origin: origin(i) }).collect())
}

#[cfg(test)]
mod tests;
