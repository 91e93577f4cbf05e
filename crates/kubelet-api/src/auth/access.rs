//! Whether a user may do something on this node.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, warn};

use super::cache::Cache;
use super::reviews::{AccessQuestion, Reviews};
use super::{Attributes, Refusal, User};

/// Questions with longer texts are not kept.
const LONGEST_KEY: usize = 10_000;

/// How long answers are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ttls {
    pub(crate) allowed: Duration,
    pub(crate) denied: Duration,
}

/// Decides what users may do.
pub(crate) enum Access {
    /// They may do everything.
    AlwaysAllow,
    /// The API server decides.
    Reviewed(Box<Reviewed>),
}

pub(crate) struct Reviewed {
    reviews: Arc<dyn Reviews>,
    node: String,
    ttls: Ttls,
    known: Cache<String, bool>,
}

impl Access {
    pub(crate) fn reviewed(reviews: Arc<dyn Reviews>, node: &str, ttls: Ttls) -> Self {
        Self::Reviewed(Box::new(Reviewed { reviews, node: node.to_owned(), ttls, known: Cache::new() }))
    }

    pub(super) async fn check(&self, user: &User, attributes: &Attributes) -> Result<(), Refusal> {
        let Self::Reviewed(reviewed) = self else { return Ok(()) };
        let (name, verb) = (&user.name, attributes.verb);
        for subresource in &attributes.subresources {
            match reviewed.is_allowed(user, verb, subresource).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(cause) => {
                    warn!(
                        "cannot ask whether user {name} may {verb} nodes/{subresource}, and the request is refused: {cause}"
                    );
                    return Err(Refusal::Unknown(format!(
                        "Authorization error (user={name}, verb={verb}, resource=nodes, subresource={subresource})"
                    )));
                }
            }
        }
        let asked = attributes.subresources.join(" ");
        debug!("user {name} may not {verb} nodes/{asked}");
        Err(Refusal::Forbidden(format!(
            "Forbidden (user={name}, verb={verb}, resource=nodes, subresource(s)=[{asked}])\n"
        )))
    }
}

impl Reviewed {
    async fn is_allowed(&self, user: &User, verb: &str, subresource: &str) -> Result<bool, String> {
        let question = AccessQuestion {
            user: user.clone(),
            node: self.node.clone(),
            verb: verb.to_owned(),
            subresource: subresource.to_owned(),
        };
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
    use super::super::reviews::tests::Fixed;
    use super::*;

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }

    async fn check(reviews: &Arc<Fixed>, times: u32, wait: Duration) -> Result<(), Refusal> {
        let ttls = Ttls { allowed: Duration::from_secs(300), denied: Duration::from_secs(30) };
        let access = Access::reviewed(Arc::clone(reviews) as _, "n", ttls);
        let mut last = Ok(());
        for _ in 0..times {
            last = access.check(&user("jane"), &Attributes::of("GET", "/pods")).await;
            tokio::time::advance(wait).await;
        }
        last
    }

    #[tokio::test(start_paused = true)]
    async fn a_yes_is_kept_longer_than_a_no_and_the_first_yes_suffices() {
        let wait = Duration::from_secs(40);
        let yes = Arc::new(Fixed::new(Ok(None), Ok(true)));
        assert_eq!(check(&yes, 3, wait).await, Ok(()));
        assert_eq!(yes.asked(), 1);
        let no = Arc::new(Fixed::new(Ok(None), Ok(false)));
        let words = "Forbidden (user=jane, verb=get, resource=nodes, subresource(s)=[pods proxy])\n";
        assert_eq!(check(&no, 3, wait).await, Err(Refusal::Forbidden(words.to_owned())));
        assert_eq!(no.asked(), 6);
    }

    #[test]
    fn questions_of_different_users_have_different_keys() {
        let key = |user: User| {
            AccessQuestion { user, node: "n".into(), verb: "get".into(), subresource: "proxy".into() }.key()
        };
        let grouped =
            |groups: &[&str]| User { groups: groups.iter().map(|g| (*g).to_owned()).collect(), ..user("a") };
        let keys = [key(user("a")), key(user("a\",")), key(grouped(&["b", "c"])), key(grouped(&["b,c"]))];
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}
