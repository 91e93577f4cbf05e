//! Bearer tokens, which the API server reviews.

use std::sync::Arc;
use std::time::Duration;

use ring::digest::{SHA256, digest};

use super::User;
use super::cache::Cache;
use super::reviews::Reviews;

/// Reviews tokens, and keeps the answers. Tokens themselves are not kept.
pub(crate) struct Tokens {
    reviews: Arc<dyn Reviews>,
    ttl: Duration,
    known: Cache<Vec<u8>, Option<User>>,
}

impl Tokens {
    pub(crate) fn new(reviews: Arc<dyn Reviews>, ttl: Duration) -> Self {
        Self { reviews, ttl, known: Cache::new() }
    }

    /// The user of a token; `None` if it is not valid. The error says why the API server could not be asked.
    pub(super) async fn user(&self, token: &str) -> Result<Option<User>, String> {
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
    use super::super::reviews::tests::Fixed;
    use super::*;

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
