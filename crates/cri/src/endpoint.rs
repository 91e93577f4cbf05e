use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::{Error, Result};

/// A socket's path is a field of 108 bytes that ends with a zero.
const LONGEST_PATH: usize = 107;

/// Where a runtime listens: a Unix socket, by its absolute path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint(PathBuf);

impl Endpoint {
    /// The socket's path.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.0
    }
}

impl TryFrom<PathBuf> for Endpoint {
    type Error = Error;

    fn try_from(socket: PathBuf) -> Result<Self> {
        let wrong = |cause| Err(Error::Endpoint { endpoint: socket.display().to_string(), cause });
        if !socket.is_absolute() {
            return wrong("a socket is named by its absolute path");
        }
        if socket.as_os_str().len() > LONGEST_PATH {
            return wrong("a socket's path has at most 107 bytes");
        }
        Ok(Self(socket))
    }
}

/// `unix:///run/x.sock`, `unix:/run/x.sock` or `/run/x.sock`, as kubelet and crictl take them.
impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let path = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")).unwrap_or(text);
        if path == text && text.contains("://") {
            let cause = "only Unix sockets are understood";
            return Err(Error::Endpoint { endpoint: text.to_owned(), cause });
        }
        Self::try_from(PathBuf::from(path))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_written_as_kubelet_and_crictl_write_it() {
        for text in ["unix:///run/a.sock", "unix:/run/a.sock", "/run/a.sock"] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.socket(), Path::new("/run/a.sock"));
            assert_eq!(endpoint.to_string(), "unix:///run/a.sock");
        }
    }

    #[test]
    fn what_is_no_socket_is_refused_with_the_cause() {
        let cause = |text: &str| text.parse::<Endpoint>().unwrap_err().to_string();
        assert!(cause("tcp://127.0.0.1:1").contains("only Unix sockets"));
        assert!(cause("npipe:////./pipe/x").contains("only Unix sockets"));
        assert!(cause("run/a.sock").contains("absolute"));
        assert!(cause("").contains("absolute"));
        assert!(cause(&format!("/{}", "a".repeat(107))).contains("107 bytes"));
    }
}
