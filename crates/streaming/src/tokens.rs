//! Requests that wait for their client, each behind a token that cannot be guessed and works once.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::handler::{AttachRequest, ExecRequest, PortForwardRequest};
use crate::{Error, Result};

/// How long a token works.
const LIFETIME: Duration = Duration::from_secs(60);

/// How many may wait at once, as with upstream's server.
const MOST_WAITING: usize = 1000;

/// Bytes of randomness: a process that can reach the port has one token's lifetime for guessing.
const RANDOM: usize = 16;

/// What a client is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Exec(ExecRequest),
    Attach(AttachRequest),
    PortForward(PortForwardRequest),
}

impl Wanted {
    /// The first part of the URL's path.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Attach(_) => "attach",
            Self::PortForward(_) => "portforward",
        }
    }
}

/// The requests that wait. Every token in `by_age` is or was in `waiting`; what was taken leaves its age behind
/// until that is the oldest.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    waiting: HashMap<String, (Instant, Wanted)>,
    by_age: VecDeque<(Instant, String)>,
}

impl Tokens {
    /// Keeps the request and names it.
    pub(crate) fn insert(&mut self, wanted: Wanted, now: Instant) -> Result<String> {
        self.forget_expired(now);
        if self.waiting.len() >= MOST_WAITING {
            return Err(Error::TooMany { waiting: self.waiting.len() });
        }
        let token = random()?;
        self.by_age.push_back((now, token.clone()));
        self.waiting.insert(token.clone(), (now, wanted));
        Ok(token)
    }

    /// The request of that name, which is then used up, also if it is of another kind.
    pub(crate) fn take(&mut self, verb: &str, token: &str, now: Instant) -> Option<Wanted> {
        self.forget_expired(now);
        let (_, wanted) = self.waiting.remove(token)?;
        (wanted.verb() == verb).then_some(wanted)
    }

    /// Whether a client with this token is waited for.
    pub(crate) fn is_waiting(&mut self, token: &str, now: Instant) -> bool {
        self.forget_expired(now);
        self.waiting.contains_key(token)
    }

    fn forget_expired(&mut self, now: Instant) {
        while let Some((since, token)) = self.by_age.front() {
            if self.waiting.contains_key(token) && now.duration_since(*since) < LIFETIME {
                return;
            }
            self.waiting.remove(token);
            self.by_age.pop_front();
        }
    }
}

fn random() -> Result<String> {
    let mut bytes = [0_u8; RANDOM];
    let mut rest = bytes.as_mut_slice();
    while !rest.is_empty() {
        match rustix::rand::getrandom(&mut *rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(got) => rest = rest.get_mut(got..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::Random { source: errno.into() }),
        }
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(sandbox: &str) -> Wanted {
        Wanted::PortForward(PortForwardRequest { sandbox: sandbox.into(), ports: vec![] })
    }

    #[test]
    fn a_token_works_once() {
        let (mut tokens, now) = (Tokens::default(), Instant::now());
        let token = tokens.insert(wanted("a"), now).unwrap();
        assert_eq!(tokens.take("portforward", &token, now), Some(wanted("a")));
        assert_eq!(tokens.take("portforward", &token, now), None);
    }

    #[test]
    fn a_token_expires_after_a_minute() {
        let (mut tokens, now) = (Tokens::default(), Instant::now());
        let early = tokens.insert(wanted("a"), now).unwrap();
        let late = tokens.insert(wanted("b"), now + Duration::from_secs(1)).unwrap();
        let minute = now + Duration::from_secs(60);
        assert_eq!(tokens.take("portforward", &early, minute), None);
        assert_eq!(tokens.take("portforward", &late, minute), Some(wanted("b")));
        assert!(tokens.waiting.is_empty());
    }

    #[test]
    fn a_token_tried_at_another_verb_is_used_up() {
        let (mut tokens, now) = (Tokens::default(), Instant::now());
        let token = tokens.insert(wanted("a"), now).unwrap();
        assert_eq!(tokens.take("exec", &token, now), None);
        assert_eq!(tokens.take("portforward", &token, now), None);
    }

    #[test]
    fn no_more_than_a_thousand_wait() {
        let (mut tokens, now) = (Tokens::default(), Instant::now());
        for _ in 0..MOST_WAITING {
            tokens.insert(wanted("a"), now).unwrap();
        }
        assert!(matches!(tokens.insert(wanted("a"), now), Err(Error::TooMany { waiting: MOST_WAITING })));
        tokens.insert(wanted("a"), now + LIFETIME).unwrap();
        assert_eq!(tokens.waiting.len(), 1);
    }

    #[test]
    fn what_was_taken_leaves_nothing_behind_that_grows() {
        let (mut tokens, now) = (Tokens::default(), Instant::now());
        for _ in 0..10 * MOST_WAITING {
            let token = tokens.insert(wanted("a"), now).unwrap();
            tokens.take("portforward", &token, now).unwrap();
        }
        assert!(tokens.by_age.len() <= 1);
    }
}
