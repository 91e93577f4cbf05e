//! Answers of a credential provider, kept for as long as they say.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::protocol::{Answer, CacheKeyType};

/// What an answer is kept for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    of: Of,
    account: AccountKey,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Of {
    Image(String),
    Registry(String),
    All,
}

/// The pods that an answer is kept for: a service account as the provider saw it, or one token of it. Empty for all pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct AccountKey(pub(super) Vec<String>);

/// The answers of one provider.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<HashMap<Key, Kept>>);

#[derive(Debug)]
struct Kept {
    answer: Answer,
    until: Instant,
}

impl Answers {
    /// A kept answer about an image.
    pub(super) fn get(&self, image: &str, account: &AccountKey) -> Option<Answer> {
        let now = Instant::now();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, kept| kept.until > now);
        let of = [Of::Image(image.to_owned()), Of::Registry(registry(image)), Of::All];
        let mut keys = of.into_iter().map(|of| Key { of, account: account.clone() });
        keys.find_map(|key| kept.get(&key)).map(|kept| kept.answer.clone())
    }

    /// Keeps an answer, unless it says not to.
    pub(super) fn keep(&self, image: &str, account: AccountKey, answer: &Answer, default: Duration) {
        let duration = answer.duration.unwrap_or(default);
        let Some(until) = Instant::now().checked_add(duration).filter(|_| !duration.is_zero()) else {
            return;
        };
        let of = match answer.key {
            CacheKeyType::Image => Of::Image(image.to_owned()),
            CacheKeyType::Registry => Of::Registry(registry(image)),
            CacheKeyType::Global => Of::All,
        };
        let kept = Kept { answer: answer.clone(), until };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(Key { of, account }, kept);
    }
}

fn registry(image: &str) -> String {
    image.split('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn answer(key: CacheKeyType, duration: Option<Duration>) -> Answer {
        Answer { auths: Vec::new(), key, duration }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_for_its_image_its_registry_or_all() {
        let all = AccountKey::default();
        for (key, expected) in [
            (CacheKeyType::Image, [true, false, false]),
            (CacheKeyType::Registry, [true, true, false]),
            (CacheKeyType::Global, [true, true, true]),
        ] {
            let answers = Answers::default();
            answers.keep("quay.io/a", all.clone(), &answer(key, Some(MINUTE)), Duration::ZERO);
            let found =
                ["quay.io/a", "quay.io/b", "ghcr.io/a"].map(|image| answers.get(image, &all).is_some());
            assert_eq!(found, expected, "{key:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_as_long_as_it_says_or_the_provider_is_configured() {
        let all = AccountKey::default();
        let is_kept = async |duration: Option<Duration>, default: Duration, after: Duration| {
            let answers = Answers::default();
            answers.keep("quay.io/a", all.clone(), &answer(CacheKeyType::Image, duration), default);
            tokio::time::advance(after).await;
            answers.get("quay.io/a", &all).is_some()
        };
        assert!(is_kept(Some(MINUTE), Duration::ZERO, MINUTE / 2).await);
        assert!(!is_kept(Some(MINUTE), MINUTE * 9, MINUTE * 2).await);
        assert!(is_kept(None, MINUTE * 9, MINUTE * 2).await);
        assert!(!is_kept(Some(Duration::ZERO), MINUTE, Duration::ZERO).await);
        assert!(!is_kept(None, Duration::ZERO, Duration::ZERO).await);
    }

    /// Otherwise a pod would get the credentials of another pod's service account.
    #[tokio::test]
    async fn an_answer_for_a_service_account_is_for_that_account_only() {
        let answers = Answers::default();
        let account = |name: &str| AccountKey(vec!["shop".into(), name.into()]);
        answers.keep("quay.io/a", account("a"), &answer(CacheKeyType::Global, Some(MINUTE)), MINUTE);
        assert!(answers.get("quay.io/a", &account("a")).is_some());
        assert!(answers.get("quay.io/a", &account("b")).is_none());
        assert!(answers.get("quay.io/a", &AccountKey::default()).is_none());
    }
}
