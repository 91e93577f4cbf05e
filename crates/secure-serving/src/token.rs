//! Bearer tokens, which the API server reviews.

use std::sync::Arc;
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use ring::digest::{SHA256, digest};

use crate::cache::Cache;
use crate::reviews::Reviews;
use crate::user::User;

/// The token of an Authorization header.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.split(' ').next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Reviews tokens, and keeps the answers. Tokens themselves are not kept.
pub struct Tokens {
    reviews: Arc<dyn Reviews>,
    ttl: Duration,
    known: Cache<Vec<u8>, Option<User>>,
}

impl Tokens {
    /// Keeps each answer for this time.
    #[must_use]
    pub fn new(reviews: Arc<dyn Reviews>, ttl: Duration) -> Self {
        Self { reviews, ttl, known: Cache::new() }
    }

    /// The user of a token; `None` if it is not valid.
    ///
    /// # Errors
    /// If the API server could not be asked: why.
    pub async fn user(&self, token: &str) -> Result<Option<User>, String> {
        let key = digest(&SHA256, token.as_bytes()).as_ref().to_vec();
        if let Some(known) = self.known.get(&key) {
            return Ok(known);
        }
        let user = self.reviews.token(token.to_owned()).await?;
        self.known.put(key, user.clone(), self.ttl);
        Ok(user)
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;
    use crate::reviews::tests::Fixed;

    #[test]
    fn a_bearer_token_is_read_as_upstream_does() {
        let read = |text: &str| {
            let value = HeaderValue::from_str(text).unwrap();
            bearer(&HeaderMap::from_iter([(AUTHORIZATION, value)])).map(str::to_owned)
        };
        assert_eq!(read("Bearer abc"), Some("abc".to_owned()));
        assert_eq!(read("bearer abc def"), Some("abc".to_owned()));
        assert_eq!(
            [read("Bearer "), read("Basic abc"), read("abc"), read("Bearer  abc")],
            [const { None }; 4]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_asked_for_once_in_its_time_and_an_error_each_time() {
        let minute = Duration::from_secs(60);
        let reviews = Arc::new(Fixed::new(Ok(None), Ok(true)));
        let tokens = Tokens::new(Arc::clone(&reviews) as _, minute);
        for _ in 0..3 {
            assert_eq!(tokens.user("a").await, Ok(None));
        }
        assert_eq!(reviews.asked(), 1);
        tokio::time::advance(minute).await;
        assert_eq!(tokens.user("a").await, Ok(None));
        assert_eq!(reviews.asked(), 2);
        let reviews = Arc::new(Fixed::new(Err("gone".to_owned()), Ok(true)));
        let tokens = Tokens::new(Arc::clone(&reviews) as _, minute);
        assert_eq!(
            [tokens.user("a").await, tokens.user("a").await],
            [const { Err(()) }; 2].map(|e: Result<Option<User>, ()>| e.map_err(|()| "gone".to_owned()))
        );
        assert_eq!(reviews.asked(), 2);
    }
}
