use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use monitor::User;
use rustix::io::{Errno, read};
use rustix::process::{Pid, Signal, WaitStatus, kill_process};
use serde::Deserialize;

/// Longer than any result.
const LONGEST: usize = 64 * 1024;

/// The helper process that starts a container, and its output so far.
pub(crate) struct Helper {
    pub(crate) pid: Pid,
    result: Option<OwnedFd>,
    said: Vec<u8>,
    ended: Option<WaitStatus>,
}

/// The result of a start.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Outcome {
    Started {
        pid: u32,
        #[serde(default)]
        user: Option<User>,
    },
    Failed {
        what: String,
        #[serde(default)]
        hint: Option<String>,
        #[serde(default)]
        reason: Option<String>,
    },
}

impl Helper {
    /// With the pipe that it writes its result to, which does not block.
    pub(crate) fn new(pid: Pid, result: OwnedFd) -> Self {
        Self { pid, result: Some(result), said: Vec::new(), ended: None }
    }

    pub(crate) fn result(&self) -> Option<BorrowedFd<'_>> {
        self.result.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    pub(crate) fn ended(&mut self, status: WaitStatus) {
        self.ended = Some(status);
    }

    /// The result, once the helper has written it or has ended.
    pub(crate) fn outcome(&mut self) -> Option<Outcome> {
        self.listen();
        if let Some(end) = self.said.iter().position(|byte| *byte == b'\n') {
            return Some(parse(self.said.get(..end).unwrap_or_default()));
        }
        if self.said.len() > LONGEST {
            return Some(failed("the helper's result has no end".to_owned()));
        }
        let status = self.ended?;
        let how = match (status.exit_status(), status.terminating_signal()) {
            (_, Some(signal)) => format!("was killed by signal {signal}"),
            (code, _) => format!("ended with code {}", code.unwrap_or(-1)),
        };
        Some(failed(format!("the helper {how} and gave no result")))
    }

    /// Kills a helper without a usable result.
    pub(crate) fn kill(&self) {
        if self.ended.is_none() {
            // Only this process reaps the helper: the PID is still the helper's.
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }

    fn listen(&mut self) {
        let mut part = [0; 1024];
        while let Some(result) = self.result.as_ref().filter(|_| self.said.len() <= LONGEST) {
            match read(result, &mut part) {
                Ok(0) => self.result = None,
                Ok(length) => self.said.extend_from_slice(part.get(..length).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.result = None,
            }
        }
    }
}

fn parse(line: &[u8]) -> Outcome {
    match serde_json::from_slice(line) {
        Ok(outcome) => outcome,
        Err(error) => failed(format!("cannot parse the helper's result: {error}")),
    }
}

fn failed(what: String) -> Outcome {
    Outcome::Failed { what, hint: None, reason: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_as_helpers_write_them() {
        let line = br#"{"started":{"pid":7,"user":{"uid":1,"gid":2,"groups":[3]}}}"#;
        let user = User { uid: 1, gid: 2, groups: vec![3] };
        assert_eq!(parse(line), Outcome::Started { pid: 7, user: Some(user) });
        let line = br#"{"failed":{"what":"no","hint":null,"reason":"StartError","code":127}}"#;
        let reason = Some("StartError".to_owned());
        assert_eq!(parse(line), Outcome::Failed { what: "no".to_owned(), hint: None, reason });
    }

    #[test]
    fn anything_else_is_a_failure() {
        for line in [&b""[..], b"{}", b"null", b"{\"started\":{}}", b"\xff", b"{\"started\":{\"pid\":-1}}"] {
            assert!(matches!(parse(line), Outcome::Failed { .. }));
        }
    }
}
