use std::io;
use std::net::SocketAddr;

/// A failure of the streaming server, or of a client of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot bind its address.
    #[error("cannot listen on {address} for exec, attach and port-forward: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// The configured base URL is invalid: a path must be able to follow it.
    #[error("base URL {url:?} is not an http:// or https:// URL without query and fragment")]
    BaseUrl {
        /// The value that was given.
        url: String,
    },
    /// A request that CRI does not allow.
    #[error("{field}: {cause}")]
    Request {
        /// The field of the CRI request.
        field: &'static str,
        /// Why it is invalid.
        cause: &'static str,
    },
    /// Too many URLs were given out that no client has used yet.
    #[error("too many exec, attach and port-forward URLs: {waiting} wait for their clients already")]
    TooMany {
        /// The number of unused URLs.
        waiting: usize,
    },
    /// A client could not connect, or its connection broke.
    #[error("{url}: {cause}")]
    Broken {
        /// The URL.
        url: String,
        /// The cause.
        cause: String,
    },
    /// The runtime could not run a client's command.
    #[error("the runtime could not run the command: {message}")]
    Command {
        /// The runtime's error message.
        message: String,
    },
    /// The kernel gave no random bytes for a token.
    #[error("cannot get random bytes for a token: {source}")]
    Random {
        /// The kernel's error.
        source: io::Error,
    },
}

/// What runtimes say of a program that does not exist, in lower case.
const MISSING: [&str; 2] = ["not found in $path", "no such file or directory"];

impl Error {
    /// The exit code that a shell has for a command whose program could not be executed: 127 if there is no such
    /// program, 126 if it is not executable. `None` if the command was not run for another reason.
    #[must_use]
    pub fn shell_code(&self) -> Option<u8> {
        let Self::Command { message } = self else { return None };
        let said = message.to_lowercase();
        // runc and the built-in runtime quote the program after `exec:`, crun after `executable file`.
        let at = said.find("exec: \"").or_else(|| said.find("executable file `"))?;
        let cause = said.get(at..).unwrap_or_default();
        Some(if MISSING.iter().any(|missing| cause.contains(missing)) { 127 } else { 126 })
    }

    /// What can be done about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Listen { .. } => Some("choose a free port, or port 0 for any, on an address of this host"),
            Self::BaseUrl { .. } => Some("give it as http://127.0.0.1:10350"),
            Self::TooMany { .. } => Some("try again in a minute: URLs that are not used expire"),
            Self::Request { .. } | Self::Random { .. } | Self::Broken { .. } | Self::Command { .. } => None,
        }
    }
}

/// With [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_cannot_be_executed_has_a_shells_exit_code_on_every_runtime() {
        let code = |message: &str| Error::Command { message: message.to_owned() }.shell_code();
        let runc = |cause: &str| {
            format!(
                "OCI runtime exec failed: exec failed: unable to start container process: {cause}: unknown"
            )
        };
        assert_eq!(code(&runc("exec: \"nope\": executable file not found in $PATH")), Some(127));
        assert_eq!(code(&runc("exec: \"/nope\": stat /nope: no such file or directory")), Some(127));
        assert_eq!(code(&runc("exec: \"/etc/passwd\": permission denied")), Some(126));
        assert_eq!(code(&runc("exec: \"/etc\": is a directory")), Some(126));
        let crun = "exec failed: executable file `nope` not found in $PATH: No such file or directory";
        assert_eq!(code(crun), Some(127));
        assert_eq!(
            code(&runc("chdir to cwd (\"/x\") set in config.json failed: no such file or directory")),
            None
        );
        assert_eq!(Error::TooMany { waiting: 1 }.shell_code(), None);
    }
}
