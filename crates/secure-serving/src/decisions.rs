//! What users may do, as the API server decides it.

use std::sync::Arc;
use std::time::Duration;

use crate::cache::Cache;
use crate::reviews::{AccessQuestion, Action, Reviews};
use crate::user::User;

/// Questions with longer texts are not kept.
const LONGEST_KEY: usize = 10_000;

/// How long answers are kept.
#[derive(Debug, Clone, Copy)]
pub struct Ttls {
    /// A yes.
    pub allowed: Duration,
    /// A no.
    pub denied: Duration,
}

/// Asks the API server what users may do, and keeps the answers.
pub struct Decisions {
    reviews: Arc<dyn Reviews>,
    ttls: Ttls,
    known: Cache<String, bool>,
}

impl Decisions {
    /// Keeps answers for these times.
    #[must_use]
    pub fn new(reviews: Arc<dyn Reviews>, ttls: Ttls) -> Self {
        Self { reviews, ttls, known: Cache::new() }
    }

    /// Whether a user may do something.
    ///
    /// # Errors
    /// If the API server could not be asked: why.
    pub async fn is_allowed(&self, user: &User, action: Action) -> Result<bool, String> {
        let question = AccessQuestion { user: user.clone(), action };
        let key = question.key();
        if let Some(known) = self.known.get(&key) {
            return Ok(known);
        }
        let allowed = self.reviews.access(question).await?;
        if key.len() < LONGEST_KEY {
            let ttl = if allowed { self.ttls.allowed } else { self.ttls.denied };
            self.known.put(key, allowed, ttl);
        }
        Ok(allowed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::reviews::tests::Fixed;

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }

    fn node(subresource: &str) -> Action {
        Action::Node { verb: "get".into(), node: "n".into(), subresource: subresource.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_yes_is_kept_longer_than_a_no_and_an_error_is_not_kept() {
        let ttls = Ttls { allowed: Duration::from_secs(300), denied: Duration::from_secs(30) };
        for (answer, asked) in [(Ok(true), 1), (Ok(false), 3), (Err("gone".to_owned()), 3)] {
            let reviews = Arc::new(Fixed::new(Ok(None), answer.clone()));
            let decisions = Decisions::new(Arc::clone(&reviews) as _, ttls);
            for _ in 0..3 {
                assert_eq!(decisions.is_allowed(&user("jane"), node("proxy")).await, answer);
                tokio::time::advance(Duration::from_secs(40)).await;
            }
            assert_eq!(reviews.asked(), asked, "{answer:?}");
        }
    }

    #[test]
    fn different_questions_have_different_keys() {
        let key = |user: User, action: Action| AccessQuestion { user, action }.key();
        let grouped =
            |groups: &[&str]| User { groups: groups.iter().map(|g| (*g).to_owned()).collect(), ..user("a") };
        let path = Action::Path { verb: "get".into(), path: "n".into() };
        let keys = [
            key(user("a"), node("proxy")),
            key(user("a\","), node("proxy")),
            key(grouped(&["b", "c"]), node("proxy")),
            key(grouped(&["b,c"]), node("proxy")),
            key(user("a"), node("")),
            key(user("a"), path),
        ];
        let distinct: BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}
