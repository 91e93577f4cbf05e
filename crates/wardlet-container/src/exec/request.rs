use std::path::PathBuf;

use container::WantedUser;
use kernel::confine::Streams;
use serde::Deserialize;

use super::configured::Configured;
use crate::failure::Failure;

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) args: Vec<String>,
    /// All of it; that of the container's first process unless given.
    env: Option<Vec<String>>,
    tty: bool,
    /// Rows and columns.
    size: Option<(u16, u16)>,
    /// That of the container's first process unless given.
    pub(super) user: Option<WantedUser>,
    /// That of the container's first process unless given.
    pub(super) cwd: Option<PathBuf>,
}

impl Request {
    pub(super) fn read(packet: &[u8]) -> Result<Self, Failure> {
        let request: Self = serde_json::from_slice(packet)
            .map_err(|cause| Failure::during("cannot read the request", cause))?;
        if request.cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
            return Err(Failure::of("the request's cwd must be an absolute path"));
        }
        Ok(request)
    }

    pub(super) fn tty(&self) -> bool {
        self.tty
    }

    pub(super) fn streams(&self) -> Streams {
        if self.tty { Streams::Terminal { size: self.size } } else { Streams::Inherited }
    }

    pub(super) fn environment(&self, configured: &Configured, home: Option<&str>) -> Vec<String> {
        let mut env = self.env.clone().unwrap_or_else(|| configured.env());
        if let (None, Some(home)) = (&self.env, home) {
            env.retain(|entry| !entry.starts_with("HOME="));
            env.push(format!("HOME={home}"));
        }
        if self.tty && !env.iter().any(|entry| entry.starts_with("TERM=")) {
            env.push("TERM=xterm".to_owned());
        }
        env
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Result<Request, Failure> {
        Request::read(text.as_bytes())
    }

    #[test]
    fn what_is_not_said_is_as_in_the_first_process() {
        let asked =
            request(r#"{"args":["sh"],"env":null,"tty":false,"size":null,"user":null,"cwd":null}"#).unwrap();
        let configured: Configured = serde_json::from_str(
            r#"{"process":{"user":{"uid":1,"gid":2},"env":["A=b","HOME=/x"],"cwd":"/w"}}"#,
        )
        .unwrap();
        assert_eq!(asked.environment(&configured, None), ["A=b", "HOME=/x"]);
        assert_eq!(asked.environment(&configured, Some("/h")), ["A=b", "HOME=/h"]);
        assert_eq!(asked.streams(), Streams::Inherited);
    }

    #[test]
    fn a_terminal_has_a_kind() {
        let asked = request(r#"{"args":["sh"],"env":["A=b"],"tty":true,"size":[24,80]}"#).unwrap();
        let configured: Configured = serde_json::from_str(r#"{"process":{}}"#).unwrap();
        assert_eq!(asked.environment(&configured, Some("/h")), ["A=b", "TERM=xterm"]);
        assert_eq!(asked.streams(), Streams::Terminal { size: Some((24, 80)) });
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        assert!(
            request(r#"{"args":["sh"],"tty":true,"privileged":true}"#)
                .unwrap_err()
                .what
                .contains("privileged")
        );
        assert!(request(r#"{"args":["sh"],"tty":true,"cwd":"a"}"#).unwrap_err().what.contains("absolute"));
    }
}
