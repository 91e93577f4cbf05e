use std::error::Error;
use std::io::ErrorKind;

use kube::client::AuthError;

/// What went wrong, in a line, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) cause: String,
    pub(super) hint: String,
    /// Whether nothing else can be read either.
    pub(super) ends_everything: bool,
    /// Whether there was nothing to be read: the server does not have the kind.
    pub(super) nothing_missing: bool,
}

impl Trouble {
    fn here(cause: String, hint: &str) -> Self {
        Self { cause, hint: hint.to_owned(), ends_everything: false, nothing_missing: false }
    }

    fn everywhere(cause: String, hint: &str) -> Self {
        Self { cause, hint: hint.to_owned(), ends_everything: true, nothing_missing: false }
    }

    pub(super) fn of(error: &kube::Error, server: &str) -> Self {
        match error {
            kube::Error::Api(status) => Self::said(status.code, &status.message, server),
            kube::Error::Auth(error) => Self::credentials(error),
            kube::Error::SerdeError(e) => Self::here(
                format!("the answer is no list of objects: {e}"),
                "check whether a proxy responds in place of the API server",
            ),
            error => match deepest::<AuthError>(error) {
                Some(error) => Self::credentials(error),
                None => Self::on_the_way(error, server),
            },
        }
    }

    fn said(code: u16, message: &str, server: &str) -> Self {
        match code {
            401 => Self::everywhere(
                format!("{server} does not accept our credentials"),
                "log in again, or name another user or context: --context NAME",
            ),
            403 => Self::here(
                message.to_owned(),
                "the right to list it is missing; get and watch are not needed",
            ),
            404 => Self {
                nothing_missing: true,
                ..Self::here("the server does not have this kind".to_owned(), "")
            },
            410 => Self::here(
                "the continue token of the list expired repeatedly (410 Gone)".to_owned(),
                "the list changes fast, or etcd is compacted often; try again",
            ),
            code => {
                Self::here(format!("the server said {code}: {message}"), "the API server's log may say more")
            }
        }
    }

    fn credentials(error: &AuthError) -> Self {
        match error {
            AuthError::AuthExecStart(e) => Self::everywhere(
                format!("the kubeconfig's credential plugin cannot be started: {e}"),
                "install the program that `users[].user.exec.command` names, or put it on PATH",
            ),
            AuthError::AuthExecRun { out, .. } => Self::everywhere(
                format!(
                    "the kubeconfig's credential plugin ended with {}: {}",
                    out.status,
                    last_line(&out.stderr)
                ),
                "run what `users[].user.exec` names by hand; it may want you to log in",
            ),
            error => Self::everywhere(
                format!("no credentials from the kubeconfig: {}", chain(error)),
                "`kubectl auth whoami` with the same kubeconfig shows whether kubectl has them",
            ),
        }
    }

    /// The request did not get there, or the answer did not come back whole.
    fn on_the_way(error: &kube::Error, server: &str) -> Self {
        let words = chain(error);
        let kind = deepest::<std::io::Error>(error).map(std::io::Error::kind);
        let hint = match kind {
            Some(ErrorKind::ConnectionRefused) => {
                "nothing listens there: is the API server up, and is this the right context?"
            }
            Some(ErrorKind::TimedOut) => "no answer in time: is a VPN or a tunnel needed to get there?",
            _ if words.contains("lookup") => {
                "its name is not known here: is a VPN needed, or another context?"
            }
            _ if words.contains("certificate") => {
                "the kubeconfig's certificate-authority-data is not the one that signed the server's certificate"
            }
            _ if words.contains("timed out") || words.contains("deadline") => {
                "no answer in time: is a VPN or a tunnel needed to get there?"
            }
            _ => "`kubectl version` with the same kubeconfig shows whether kubectl gets there",
        };
        Self::everywhere(format!("cannot reach {server}: {}", innermost(error)), hint)
    }
}

/// The error and its causes, outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&e: &&'a (dyn Error + 'static)| e.source())
}

/// The deepest error of this type, if there is one.
fn deepest<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    causes(error).filter_map(|e| e.downcast_ref::<T>()).last()
}

/// The last cause: those before it only say that something failed.
fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// Each cause once, outermost first.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut said: Vec<String> = Vec::new();
    for words in causes(error).map(ToString::to_string) {
        if !said.iter().any(|before| before.contains(&words)) {
            said.push(words);
        }
    }
    said.join(": ")
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output").trim().to_owned()
}
