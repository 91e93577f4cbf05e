use std::path::Path;

use monitor::{Ending, Exit, Started, User};

use types::reason;

use crate::error::{Error, Result};
use crate::records::ContainerStage;

/// The exit code of what never ran, as other runtimes have it.
const NEVER_RAN: i32 = 128;

/// What has become of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContainerState {
    /// Nothing yet.
    Created,
    /// It runs.
    Running(Started),
    /// It has ended, or never ran.
    Exited(Ended),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Nanoseconds since 1970; 0 if it never ran.
    pub(crate) started_at: i64,
    /// Nanoseconds since 1970.
    pub(crate) finished_at: i64,
    pub(crate) code: i32,
    /// Completed, Error, OOMKilled, StartError and the like.
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) user: Option<User>,
}

impl ContainerState {
    /// What the files in its directory say.
    pub(crate) fn read(dir: &Path, stage: &ContainerStage) -> Result<Self> {
        if let ContainerStage::Failed { reason, message, at } = stage {
            return Ok(Self::Exited(Ended {
                started_at: 0,
                finished_at: *at,
                code: NEVER_RAN,
                reason: reason.clone(),
                message: message.clone(),
                user: None,
            }));
        }
        let failed = |cause: monitor::Error| Error::Step {
            step: format!("learn what became of the container in {}", dir.display()),
            cause: cause.to_string(),
            hint: cause.hint().map(Into::into),
        };
        let started = Started::read(dir).map_err(failed)?;
        match (Exit::read(dir).map_err(failed)?, started) {
            (Some(exit), started) => Ok(Self::Exited(Ended::of(&exit, started))),
            (None, Some(started)) => Ok(Self::Running(started)),
            (None, None) => Ok(Self::Created),
        }
    }

    pub(crate) fn to_cri(&self) -> cri::ContainerState {
        match self {
            Self::Created => cri::ContainerState::ContainerCreated,
            Self::Running(_) => cri::ContainerState::ContainerRunning,
            Self::Exited(_) => cri::ContainerState::ContainerExited,
        }
    }

    /// In words.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running(_) => "running",
            Self::Exited(_) => "exited",
        }
    }
}

impl Ended {
    pub(crate) fn of(exit: &Exit, started: Option<Started>) -> Self {
        let code = exit.code();
        let reason = match (exit.oom, code) {
            (true, _) => reason::OOM_KILLED,
            (false, 0) => reason::COMPLETED,
            (false, _) => reason::ERROR,
        };
        let lost =
            (exit.ending == Ending::Lost).then(|| "exit status lost: the pod's monitor died".to_owned());
        Self {
            started_at: started.as_ref().map_or(0, |started| started.started_at),
            finished_at: exit.finished_at,
            code,
            reason: reason.to_owned(),
            message: exit.message.clone().or(lost).unwrap_or_default(),
            user: started.and_then(|started| started.user),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(ending: Ending, oom: bool) -> Ended {
        Ended::of(&Exit { ending, oom, finished_at: 9, message: None }, None)
    }

    #[test]
    fn the_reason_says_how_it_ended() {
        for (ending, oom, code, reason) in [
            (Ending::Code(0), false, 0, "Completed"),
            (Ending::Code(3), false, 3, "Error"),
            (Ending::Signal(9), false, 137, "Error"),
            (Ending::Signal(9), true, 137, "OOMKilled"),
            (Ending::Lost, false, 255, "Error"),
        ] {
            let found = ended(ending, oom);
            assert_eq!((found.code, found.reason.as_str()), (code, reason), "{ending:?}");
        }
    }

    #[test]
    fn what_never_ran_is_read_from_its_record_alone() {
        let stage = ContainerStage::Failed { reason: "StartError".into(), message: "no".into(), at: 5 };
        let ContainerState::Exited(found) = ContainerState::read(Path::new("/no/such/dir"), &stage).unwrap()
        else {
            panic!()
        };
        assert_eq!((found.code, found.started_at, found.finished_at), (128, 0, 5));
    }
}
