//! Whether a user may do something on this node.

use secure_serving::{Action, Decisions, User};
use tracing::{debug, warn};

use super::{Attributes, Refusal};

/// Decides what users may do.
pub(crate) enum Access {
    /// They may do everything.
    AlwaysAllow,
    /// The API server decides.
    Reviewed(Box<Reviewed>),
}

pub(crate) struct Reviewed {
    decisions: Decisions,
    node: String,
}

impl Access {
    pub(crate) fn reviewed(decisions: Decisions, node: &str) -> Self {
        Self::Reviewed(Box::new(Reviewed { decisions, node: node.to_owned() }))
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
        let action = Action::Node {
            verb: verb.to_owned(),
            node: self.node.clone(),
            subresource: subresource.to_owned(),
        };
        self.decisions.is_allowed(user, action).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use secure_serving::Ttls;

    use super::super::fixed::Fixed;
    use super::*;

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }

    async fn check(reviews: &Arc<Fixed>, times: u32, wait: Duration) -> Result<(), Refusal> {
        let ttls = Ttls { allowed: Duration::from_secs(300), denied: Duration::from_secs(30) };
        let access = Access::reviewed(Decisions::new(Arc::clone(reviews) as _, ttls), "n");
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
}
