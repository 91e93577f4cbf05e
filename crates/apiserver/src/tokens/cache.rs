//! The tokens that pods have, in memory only.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::Error;
use agent::ports::{BoxFuture, Clock, Token, TokenRequest};
use lifecycle::Moment;
use tracing::warn;
use types::PodUid;

use crate::backoff::random_below;

/// A token is refreshed at the latest after this time, as the kubelet does.
const LONGEST_USE: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest random time by which a refresh is early, so that the pods of a node do not ask at the same moment.
const JITTER: Duration = Duration::from_secs(10);

/// A token as the API server has issued it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Issued {
    pub(crate) token: Token,
    /// How long it is valid in all.
    pub(crate) lifetime: Duration,
    pub(crate) expires: Moment,
}

impl Issued {
    /// When it has to be refreshed: after 80 % of its life, or after a day.
    fn due(&self, jitter: Duration) -> Moment {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let before = |early: Duration| self.expires.millis().saturating_sub(millis(early));
        let issued = Moment::from_millis(before(self.lifetime));
        let longest = issued.after(LONGEST_USE).millis().saturating_sub(millis(jitter));
        Moment::from_millis(before(self.lifetime / 5 + jitter).min(longest))
    }
}

/// Why no token was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IssueError {
    /// The API server refused.
    Refused(String),
    /// There was no answer that could be used.
    Unreachable(String),
}

impl fmt::Display for IssueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(cause) | Self::Unreachable(cause)) = self;
        f.write_str(cause)
    }
}

/// Requests a token.
pub(crate) type Issue = dyn Fn(TokenRequest) -> BoxFuture<'static, Result<Issued, IssueError>> + Send + Sync;

/// The tokens of the pods of this node, by what was requested.
pub(crate) struct Tokens {
    issue: Box<Issue>,
    clock: Arc<dyn Clock>,
    entries: Mutex<HashMap<TokenRequest, Entry>>,
}

struct Entry {
    issued: Issued,
    due: Moment,
    /// Whether a pod has asked for it since it was issued.
    is_used: bool,
}

impl Tokens {
    pub(crate) fn new(issue: Box<Issue>, clock: Arc<dyn Clock>) -> Self {
        Self { issue, clock, entries: Mutex::default() }
    }

    /// The current token. One that has not expired is in memory; otherwise it is requested.
    pub(crate) async fn get(&self, request: &TokenRequest) -> agent::Result<Token> {
        let now = self.clock.now();
        if let Some(entry) = self.entries().get_mut(request) {
            entry.is_used = true;
            if now < entry.issued.expires {
                return Ok(entry.issued.token.clone());
            }
        }
        let issued = (self.issue)(request.clone()).await;
        let failed =
            |error: IssueError| Error::Token { account: request.account(), cause: error.to_string() };
        let entry = Entry::new(issued.map_err(failed)?, true);
        let token = entry.issued.token.clone();
        self.entries().insert(request.clone(), entry);
        Ok(token)
    }

    /// Forgets the tokens of a pod.
    pub(crate) fn forget(&self, pod: &PodUid) {
        self.entries().retain(|request, _| request.pod.uid != *pod);
    }

    /// Refreshes the tokens whose time has come. Returns whether a pod has another token now. A token whose refresh fails
    /// stays as it is, and the next call tries again.
    pub(crate) async fn refresh(&self) -> bool {
        let mut is_changed = false;
        for request in self.due() {
            match (self.issue)(request.clone()).await {
                Ok(issued) => {
                    // The pod may have been forgotten meanwhile.
                    if let Some(entry) = self.entries().get_mut(&request) {
                        *entry = Entry::new(issued, false);
                        is_changed = true;
                    }
                }
                Err(error) => {
                    let (account, pod) = (request.account(), &request.pod.name);
                    warn!(
                        "the token of service account {account} for pod {pod} cannot be refreshed: {error}"
                    );
                    if matches!(error, IssueError::Unreachable(_)) {
                        // The next requests would wait as long for the same answer.
                        break;
                    }
                }
            }
        }
        is_changed
    }

    /// The tokens that have to be refreshed. Drops those that no pod has asked for since they were issued: their pods have
    /// ended.
    fn due(&self) -> Vec<TokenRequest> {
        let now = self.clock.now();
        let mut entries = self.entries();
        entries.retain(|_, entry| now <= entry.due || entry.is_used);
        entries.iter().filter(|(_, entry)| now > entry.due).map(|(request, _)| request.clone()).collect()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<TokenRequest, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new(issued: Issued, is_used: bool) -> Self {
        Self { due: issued.due(random_below(JITTER)), issued, is_used }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use agent::ports::PodRef;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[derive(Default)]
    struct TestClock(AtomicU64);

    impl TestClock {
        fn advance(&self, span: Duration) {
            self.0.fetch_add(u64::try_from(span.as_millis()).unwrap(), Ordering::SeqCst);
        }
    }

    impl Clock for TestClock {
        fn now(&self) -> Moment {
            Moment::from_millis(self.0.load(Ordering::SeqCst))
        }
    }

    /// Issues numbered tokens of an hour, unless it fails.
    struct Server {
        clock: Arc<TestClock>,
        asked: Arc<AtomicU64>,
        failure: Arc<Mutex<Option<IssueError>>>,
        tokens: Tokens,
    }

    impl Server {
        fn new() -> Self {
            let (clock, asked) = (Arc::new(TestClock(AtomicU64::new(1_000_000_000_000))), Arc::default());
            let failure: Arc<Mutex<Option<IssueError>>> = Arc::default();
            let (now, count, fails) = (Arc::clone(&clock), Arc::clone(&asked), Arc::clone(&failure));
            let issue = move |_: TokenRequest| -> BoxFuture<'static, Result<Issued, IssueError>> {
                let number = AtomicU64::fetch_add(&count, 1, Ordering::SeqCst);
                let (failure, expires) = (fails.lock().unwrap().clone(), now.now().after(HOUR));
                let token = Token::new(format!("t{number}"));
                let issued = Issued { token, lifetime: HOUR, expires };
                Box::pin(async move { failure.map_or(Ok(issued), Err) })
            };
            let tokens = Tokens::new(Box::new(issue), Arc::clone(&clock) as _);
            Self { clock, asked, failure, tokens }
        }

        fn asked(&self) -> u64 {
            self.asked.load(Ordering::SeqCst)
        }

        async fn get(&self, pod: &str) -> Result<String, String> {
            let token = self.tokens.get(&request(pod)).await;
            token.map(|token| token.expose().to_owned()).map_err(|error| error.to_string())
        }
    }

    fn request(pod: &str) -> TokenRequest {
        let uid = PodUid::new(pod).unwrap();
        TokenRequest {
            pod: PodRef { namespace: "shop".into(), name: pod.into(), uid },
            service_account: "robot".into(),
            audience: None,
            expiration_seconds: 3600,
        }
    }

    #[test]
    fn a_token_is_due_after_four_fifths_of_its_life_or_a_day() {
        let due = |lifetime: u64, jitter: u64| {
            let lifetime = Duration::from_secs(lifetime);
            let start = Moment::from_millis(1_000_000_000_000);
            let issued = Issued { token: Token::new("t".into()), lifetime, expires: start.after(lifetime) };
            issued.due(Duration::from_secs(jitter)).since(start).as_secs()
        };
        assert_eq!((due(3600, 0), due(3600, 10), due(600, 10)), (2880, 2870, 470));
        let day = LONGEST_USE.as_secs();
        assert_eq!((due(day, 0), due(365 * day, 0), due(365 * day, 7)), (day / 5 * 4, day, day - 7));
    }

    #[tokio::test]
    async fn a_token_is_kept_until_it_is_due_and_refreshed_before_it_expires() {
        let server = Server::new();
        assert_eq!((server.get("a").await, server.get("a").await), (Ok("t0".into()), Ok("t0".into())));
        server.clock.advance(HOUR / 2);
        assert!(!server.tokens.refresh().await && server.asked() == 1);
        server.clock.advance(HOUR * 3 / 10 + Duration::from_secs(1));
        assert!(server.tokens.refresh().await);
        assert_eq!(server.get("a").await, Ok("t1".into()));
        assert!(!server.tokens.refresh().await && server.asked() == 2);
    }

    #[tokio::test]
    async fn a_token_stays_until_it_expires_while_the_server_does_not_answer() {
        let server = Server::new();
        server.get("a").await.unwrap();
        *server.failure.lock().unwrap() = Some(IssueError::Unreachable("no route".into()));
        server.clock.advance(HOUR - Duration::from_secs(1));
        assert!(!server.tokens.refresh().await);
        assert_eq!(server.get("a").await, Ok("t0".into()));
        server.clock.advance(Duration::from_secs(2));
        let error = server.get("a").await.unwrap_err();
        assert!(error.contains("shop/robot") && error.contains("no route"), "{error}");
        *server.failure.lock().unwrap() = None;
        assert!(server.tokens.refresh().await, "an expired token is still refreshed");
    }

    #[tokio::test]
    async fn one_refusal_does_not_keep_other_tokens_from_their_refresh_and_an_outage_does() {
        let server = Server::new();
        for pod in ["a", "b", "c"] {
            server.get(pod).await.unwrap();
        }
        server.clock.advance(HOUR * 9 / 10);
        *server.failure.lock().unwrap() = Some(IssueError::Refused("not found".into()));
        assert!(!server.tokens.refresh().await && server.asked() == 6);
        *server.failure.lock().unwrap() = Some(IssueError::Unreachable("no route".into()));
        assert!(!server.tokens.refresh().await && server.asked() == 7);
    }

    #[tokio::test]
    async fn tokens_of_pods_that_are_gone_or_have_ended_are_dropped() {
        let server = Server::new();
        server.get("gone").await.unwrap();
        server.get("ended").await.unwrap();
        server.tokens.forget(&PodUid::new("gone").unwrap());
        server.clock.advance(HOUR);
        assert!(server.tokens.refresh().await && server.asked() == 3);
        server.clock.advance(HOUR);
        assert!(!server.tokens.refresh().await && server.asked() == 3);
        assert!(server.tokens.entries().is_empty());
    }
}
