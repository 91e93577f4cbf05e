use std::error::Error as StdError;
use std::fmt::Display;

use serde::Serialize;

/// Why something was not done, in the words that travel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Failure {
    /// One line.
    pub(crate) what: String,
    /// What the user can do about it.
    pub(crate) hint: Option<String>,
    /// The reason of the failure, for events of the pod.
    pub(crate) reason: Reason,
}

/// Upstream's names of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Reason {
    /// The container could not be made.
    RunContainerError,
    /// Its program could not be run.
    StartError,
}

/// The codes that shells agreed on.
pub(crate) const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

impl Failure {
    pub(crate) fn of(what: impl Into<String>) -> Self {
        Self { what: one_line(&what.into()), hint: None, reason: Reason::RunContainerError }
    }

    /// With what was being done in front of it.
    pub(crate) fn during(doing: &str, cause: impl Display) -> Self {
        Self::of(format!("{doing}: {cause}"))
    }

    pub(crate) fn hinted(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }

    /// What an engine said, which may be that the program could not be run.
    pub(crate) fn said(engine: &str, words: &str) -> Self {
        let words = one_line(words);
        match words.find("exec: \"").and_then(|at| words.get(at..)) {
            Some(program) => Self { reason: Reason::StartError, ..Self::of(program) },
            None => Self::during(engine, words),
        }
    }

    /// What a shell's exit code would be.
    pub(crate) fn code(&self) -> u8 {
        let ends = |ending: &str| self.what.ends_with(ending);
        match self.reason {
            Reason::RunContainerError => 125,
            Reason::StartError if ends("not found in $PATH") || ends("no such file or directory") => {
                NOT_FOUND
            }
            Reason::StartError => NOT_EXECUTABLE,
        }
    }
}

impl From<kernel::Error> for Failure {
    fn from(error: kernel::Error) -> Self {
        match &error {
            kernel::Error::Program { name, errno } => {
                Self { reason: Reason::StartError, ..Self::of(program(name, errno.raw_os_error())) }
            }
            _ => Self { hint: error.hint().map(str::to_owned), ..Self::of(error.to_string()) },
        }
    }
}

impl From<cgroups::Error> for Failure {
    fn from(error: cgroups::Error) -> Self {
        Self { hint: error.hint(), ..Self::of(with_causes(&error)) }
    }
}

impl From<container::Error> for Failure {
    fn from(error: container::Error) -> Self {
        Self { hint: error.hint(), ..Self::of(with_causes(&error)) }
    }
}

/// As users of other runtimes know it.
pub(crate) fn program(name: &str, errno: i32) -> String {
    let errno = rustix::io::Errno::from_raw_os_error(errno);
    let cause = match errno {
        rustix::io::Errno::NOENT if !name.contains('/') => "executable file not found in $PATH".to_owned(),
        rustix::io::Errno::NOENT => format!("stat {name}: no such file or directory"),
        rustix::io::Errno::ACCESS => "permission denied".to_owned(),
        rustix::io::Errno::NOEXEC => "exec format error".to_owned(),
        other => other.to_string(),
    };
    format!("exec: \"{name}\": {cause}")
}

/// An error and all that caused it.
pub(crate) fn with_causes(error: &dyn StdError) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Some errors show what caused them already.
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = error.source();
    }
    words
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

impl From<procfs::Error> for Failure {
    fn from(error: procfs::Error) -> Self {
        Self::of(error.to_string())
    }
}

impl From<durable::Error> for Failure {
    fn from(error: durable::Error) -> Self {
        let failure = Self::of(error.to_string());
        match error.hint() {
            Some(hint) => failure.hinted(hint),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_told_as_elsewhere_and_has_a_code() {
        let found = |name: &str, errno: rustix::io::Errno| {
            let failure = Failure::from(kernel::Error::Program { name: name.to_owned(), errno });
            (failure.what.clone(), failure.code())
        };
        let missing = "exec: \"nope\": executable file not found in $PATH".to_owned();
        assert_eq!(found("nope", rustix::io::Errno::NOENT), (missing, 127));
        let missing = "exec: \"/nope\": stat /nope: no such file or directory".to_owned();
        assert_eq!(found("/nope", rustix::io::Errno::NOENT), (missing, 127));
        let denied = "exec: \"/etc\": permission denied".to_owned();
        assert_eq!(found("/etc", rustix::io::Errno::ACCESS), (denied, 126));
    }

    #[test]
    fn an_engines_own_words_are_known_too() {
        let words = "runc run failed: unable to start container process: exec: \"nope\": executable file not found in $PATH\n";
        let failure = Failure::said("runc", words);
        assert_eq!(failure.what, "exec: \"nope\": executable file not found in $PATH");
        assert_eq!((failure.reason, failure.code()), (Reason::StartError, 127));
        let failure = Failure::said("runc", "one\n\n two");
        assert_eq!((failure.what.as_str(), failure.reason), ("runc: one; two", Reason::RunContainerError));
    }
}
