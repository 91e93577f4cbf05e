use std::cell::RefCell;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use ureq::config::RedirectAuthHeaders;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, http::Response};

use super::challenge::Challenge;
use super::remote::{Credentials, Endpoint, Scheme};
use crate::error::{Error, Result};

const CONNECT: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(60);
/// Between two pieces of a body.
const SILENCE: Duration = Duration::from_secs(60);
const LONGEST_TOKEN: u64 = 1 << 20;
/// Of an error's body, to show.
const LONGEST_ANSWER: u64 = 64 << 10;

/// Requests to one registry about one repository.
pub(super) struct Session {
    agent: Agent,
    endpoint: Endpoint,
    /// The `Authorization` field that the registry has let us in with.
    authorization: RefCell<Option<String>>,
}

/// A request: what for, as text, and which.
pub(super) struct Ask<'a> {
    pub(super) what: &'a str,
    /// Behind `/v2/<repository>/`.
    pub(super) path: &'a str,
    pub(super) fields: &'a [(&'a str, &'a str)],
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

impl Session {
    pub(super) fn new(endpoint: Endpoint) -> Result<Self> {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .https_only(endpoint.scheme == Scheme::Https)
            // A registry may lead from a tag to a digest of its own. Other hosts never get the credentials.
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .user_agent(concat!("wardlet/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .timeout_per_read(Some(SILENCE))
            .tls_config(tls(&endpoint)?)
            .build()
            .new_agent();
        let known = match &endpoint.credentials {
            Some(Credentials::RegistryToken(token)) => Some(format!("Bearer {token}")),
            _ => None,
        };
        Ok(Self { agent, endpoint, authorization: RefCell::new(known) })
    }

    pub(super) fn base(&self) -> String {
        self.endpoint.base()
    }

    /// Asks, logs in if need be, and asks again.
    pub(super) fn get(&self, ask: &Ask<'_>) -> Result<Response<Body>> {
        let first = self.send(ask)?;
        if first.status() != 401 {
            return self.judged(ask, first);
        }
        let fields =
            first.headers().get_all("www-authenticate").iter().filter_map(|field| field.to_str().ok());
        let Some(challenge) = Challenge::best(fields) else {
            return Err(self.unauthorized(ask.what, "it does not say how to log in".to_owned()));
        };
        let authorization = self.log_in(ask.what, &challenge)?;
        *self.authorization.borrow_mut() = Some(authorization);
        let second = self.send(ask)?;
        self.judged(ask, second)
    }

    fn send(&self, ask: &Ask<'_>) -> Result<Response<Body>> {
        let url = format!("{}/v2/{}/{}", self.base(), self.endpoint.repository, ask.path);
        let mut request = self.agent.get(url);
        if let Some(of) = &self.endpoint.of {
            request = request.query("ns", of);
        }
        for (name, value) in ask.fields {
            request = request.header(*name, *value);
        }
        if let Some(authorization) = self.authorization.borrow().as_ref() {
            request = request.header("Authorization", authorization);
        }
        request.call().map_err(|error| self.failed(ask.what, error.to_string()))
    }

    fn judged(&self, ask: &Ask<'_>, mut answer: Response<Body>) -> Result<Response<Body>> {
        let status = answer.status();
        if status.is_success() || status == 416 {
            return Ok(answer);
        }
        let body = answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_string().unwrap_or_default();
        let said = first_words(&body);
        match status.as_u16() {
            401 | 403 => Err(self.unauthorized(ask.what, format!("{status}{said}"))),
            404 => Err(Error::NotThere { endpoint: self.base(), what: ask.what.to_owned() }),
            _ => Err(self.failed(ask.what, format!("it answers {status}{said}"))),
        }
    }

    fn log_in(&self, what: &str, challenge: &Challenge) -> Result<String> {
        let password = match &self.endpoint.credentials {
            Some(Credentials::Password { user, password }) => {
                Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
            }
            _ => None,
        };
        match challenge {
            Challenge::Basic => {
                password.ok_or_else(|| self.unauthorized(what, "it wants a user and a password".to_owned()))
            }
            Challenge::Bearer { realm, service, scope } => {
                // A server in the registry's place must not make us send a password in the clear.
                if self.endpoint.scheme == Scheme::Https && !realm.starts_with("https://") {
                    let why = format!("it sends us to {realm} for a token, which is not https");
                    return Err(self.unauthorized(what, why));
                }
                let own = format!("repository:{}:pull", self.endpoint.repository);
                let scope = scope.as_deref().unwrap_or(&own);
                let token = self.token(
                    what,
                    realm,
                    &[("service", service.as_deref()), ("scope", Some(scope))],
                    password.as_deref(),
                )?;
                Ok(format!("Bearer {token}"))
            }
        }
    }

    fn token(
        &self,
        what: &str,
        realm: &str,
        parameters: &[(&str, Option<&str>)],
        password: Option<&str>,
    ) -> Result<String> {
        let given = parameters.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        let answer = if let Some(Credentials::IdentityToken(token)) = &self.endpoint.credentials {
            let fixed = [("grant_type", "refresh_token"), ("client_id", "wardlet"), ("refresh_token", token)];
            self.agent.post(realm).send_form(fixed.into_iter().chain(given))
        } else {
            let request = self.agent.get(realm).query_pairs(given);
            match password {
                Some(password) => request.header("Authorization", password).call(),
                None => request.call(),
            }
        };
        let mut answer =
            answer.map_err(|error| self.failed(what, format!("no token from {realm}: {error}")))?;
        if answer.status().is_server_error() {
            return Err(self.failed(what, format!("no token from {realm}: it answers {}", answer.status())));
        }
        if !answer.status().is_success() {
            return Err(
                self.unauthorized(what, format!("no token from {realm}: it answers {}", answer.status()))
            );
        }
        let body = answer.body_mut().with_config().limit(LONGEST_TOKEN).read_to_vec();
        let body = body.map_err(|error| self.failed(what, format!("no token from {realm}: {error}")))?;
        let token: Token = crate::json::read(&format!("the answer of {realm}"), &body)?;
        let token = token.token.or(token.access_token).filter(|token| !token.is_empty());
        token.ok_or_else(|| self.unauthorized(what, format!("{realm} gives no token")))
    }

    pub(super) fn failed(&self, what: &str, why: String) -> Error {
        Error::Registry { endpoint: self.base(), what: what.to_owned(), why }
    }

    fn unauthorized(&self, what: &str, why: String) -> Error {
        Error::Unauthorized { endpoint: self.base(), what: what.to_owned(), why }
    }
}

/// The beginning of what a registry says about an error, as one short line.
fn first_words(body: &str) -> String {
    let printable: String = body.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    let words = printable.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() { words } else { format!(": {words}") }
}

/// The system's authorities and the registry's own.
fn tls(endpoint: &Endpoint) -> Result<TlsConfig> {
    if endpoint.scheme == Scheme::PlainHttp {
        return Ok(TlsConfig::default());
    }
    let system = rustls_native_certs::load_native_certs();
    let mut roots: Vec<Certificate<'static>> =
        system.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    for path in &endpoint.ca {
        let wrong = |why: String| Error::Certificates { path: path.clone(), why };
        let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let before = roots.len();
        for item in parse_pem(&text) {
            if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(error.to_string()))? {
                roots.push(certificate);
            }
        }
        if roots.len() == before {
            return Err(wrong("there is none in it".to_owned()));
        }
    }
    if roots.is_empty() {
        let why = "there are none on this system; install ca-certificates, or name one as `ca`".to_owned();
        return Err(Error::Certificates { path: "/etc/ssl/certs".into(), why });
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::from(roots)).build())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The path of a request, and whether it came with credentials.
    type Request = (String, bool);

    /// A server on a port of its own that answers every request by its path and by whether it came with credentials.
    fn serve(answer: impl Fn(&str, bool) -> String + Send + 'static) -> (u16, Arc<Mutex<Vec<Request>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
        let requests = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let path =
                    head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
                let is_known =
                    head.iter().any(|line| line.to_ascii_lowercase().starts_with("authorization:"));
                let text = answer(&path, is_known);
                requests.lock().unwrap().push((path, is_known));
                let _ = (&stream).write_all(text.as_bytes());
            }
        });
        (port, seen)
    }

    fn answer(status: &str, field: &str) -> String {
        format!("HTTP/1.1 {status}\r\n{field}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}")
    }

    fn get(port: u16, path: &str) -> Result<Response<Body>> {
        let credentials = Credentials::Password { user: "user".to_owned(), password: "password".to_owned() };
        let endpoint = Endpoint {
            host: format!("127.0.0.1:{port}"),
            scheme: Scheme::PlainHttp,
            repository: "web".to_owned(),
            ca: Vec::new(),
            credentials: Some(credentials),
            of: None,
        };
        Session::new(endpoint)?.get(&Ask { what: "a manifest", path, fields: &[] })
    }

    /// Upstream's registry for tests leads from each tag to the digest of its manifest.
    #[test]
    fn a_registry_that_leads_to_itself_gets_the_credentials_and_another_one_does_not() {
        let (other, seen_by_other) = serve(|_, _| answer("200 OK", ""));
        let (registry, seen) = serve(move |path, is_known| match path {
            _ if !is_known => answer("401 Unauthorized", "WWW-Authenticate: Basic realm=\"r\"\r\n"),
            "/v2/web/manifests/tag" => {
                answer("307 Temporary Redirect", "Location: /v2/web/manifests/sha256:1\r\n")
            }
            "/v2/web/blobs/far" => {
                let field = format!("Location: http://localhost:{other}/blob\r\n");
                answer("307 Temporary Redirect", &field)
            }
            _ => answer("200 OK", ""),
        });
        assert_eq!(get(registry, "manifests/tag").unwrap().status(), 200);
        let asked = |path: &str, is_known: bool| (path.to_owned(), is_known);
        let (tag, digest) = ("/v2/web/manifests/tag", "/v2/web/manifests/sha256:1");
        assert_eq!(*seen.lock().unwrap(), [asked(tag, false), asked(tag, true), asked(digest, true)]);
        assert_eq!(get(registry, "blobs/far").unwrap().status(), 200);
        assert_eq!(*seen_by_other.lock().unwrap(), [asked("/blob", false)]);
    }
}
