//! Authentication and authorization of a request, as the kubelet's: client certificate, bearer token, anonymous; then the
//! question whether the user may do this on this node.

mod access;
mod attributes;
mod certificate;
#[cfg(test)]
mod fixed;

use hyper::HeaderMap;
use secure_serving::{Tokens, User, bearer};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tracing::debug;

pub(crate) use access::Access;
pub(crate) use attributes::Attributes;
pub(crate) use certificate::ClientCertificates;

/// What a request offers as proof of its identity.
pub(crate) struct Credentials<'a> {
    /// The certificate chain of the connection, whose key the client has; not verified against any authority.
    pub(crate) certificates: &'a [CertificateDer<'static>],
    pub(crate) headers: &'a HeaderMap,
}

/// Why a request is refused, with the words of a kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden(String),
    /// 500: the API server could not be asked.
    Unknown(String),
}

/// Decides on requests.
pub(crate) struct Auth {
    pub(crate) certificates: Option<ClientCertificates>,
    /// `None`: bearer tokens are ignored.
    pub(crate) tokens: Option<Tokens>,
    pub(crate) anonymous: bool,
    pub(crate) access: Access,
}

impl Auth {
    /// Allows a request, or says why not.
    pub(crate) async fn check(
        &self,
        credentials: Credentials<'_>,
        attributes: &Attributes,
    ) -> Result<(), Refusal> {
        let user = self.user(credentials).await?;
        self.access.check(&user, attributes).await
    }

    /// Wrong credentials are refused, also where requests without any are accepted.
    async fn user(&self, credentials: Credentials<'_>) -> Result<User, Refusal> {
        let mut is_wrong = false;
        if let Some(known) = &self.certificates
            && !credentials.certificates.is_empty()
        {
            match known.user(credentials.certificates) {
                Ok(Some(user)) => return Ok(user.authenticated()),
                Ok(None) => {}
                Err(cause) => {
                    debug!("a client certificate is refused: {cause}");
                    is_wrong = true;
                }
            }
        }
        if let Some(tokens) = &self.tokens
            && let Some(token) = bearer(credentials.headers)
        {
            match tokens.user(token).await {
                Ok(Some(user)) => return Ok(user.authenticated()),
                Ok(None) => is_wrong = true,
                Err(cause) => {
                    debug!("a bearer token is refused: {cause}");
                    is_wrong = true;
                }
            }
        }
        if self.anonymous && !is_wrong { Ok(User::anonymous()) } else { Err(Refusal::Unauthorized) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use hyper::header::{AUTHORIZATION, HeaderValue};
    use secure_serving::{Decisions, Reviews, Ttls};

    use super::fixed::Fixed;
    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        let value = HeaderValue::from_str(authorization).unwrap();
        HeaderMap::from_iter([(AUTHORIZATION, value)])
    }

    async fn outcome(auth: &Auth, headers: &HeaderMap) -> Result<(), Refusal> {
        let attributes = Attributes::of("GET", "/metrics");
        auth.check(Credentials { certificates: &[], headers }, &attributes).await
    }

    fn auth(reviews: Fixed, anonymous: bool) -> Auth {
        let reviews: Arc<dyn Reviews> = Arc::new(reviews);
        let minute = Duration::from_secs(60);
        Auth {
            certificates: None,
            tokens: Some(Tokens::new(Arc::clone(&reviews), minute)),
            anonymous,
            access: Access::reviewed(Decisions::new(reviews, Ttls { allowed: minute, denied: minute }), "n"),
        }
    }

    #[tokio::test]
    async fn wrong_credentials_are_not_anonymous() {
        let wrong = headers("Bearer wrong");
        let none = HeaderMap::new();
        for anonymous in [false, true] {
            let auth = auth(Fixed::new(Ok(None), Ok(true)), anonymous);
            assert_eq!(outcome(&auth, &wrong).await, Err(Refusal::Unauthorized));
            let expected = if anonymous { Ok(()) } else { Err(Refusal::Unauthorized) };
            assert_eq!(outcome(&auth, &none).await, expected);
        }
    }

    #[tokio::test]
    async fn an_api_server_that_cannot_be_asked_refuses() {
        let broken = || Err("no route to host".to_owned());
        let token = headers("Bearer a");
        let unreviewed = auth(Fixed::new(broken(), Ok(true)), true);
        assert_eq!(outcome(&unreviewed, &token).await, Err(Refusal::Unauthorized));
        let user = User { name: "jane".to_owned(), ..User::default() };
        let unknown = auth(Fixed::new(Ok(Some(user)), Err("no route to host".to_owned())), true);
        let Err(Refusal::Unknown(text)) = outcome(&unknown, &token).await else { panic!("allowed") };
        assert_eq!(text, "Authorization error (user=jane, verb=get, resource=nodes, subresource=metrics)");
    }
}
