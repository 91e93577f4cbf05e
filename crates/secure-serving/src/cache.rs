use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The greatest number of answers that are kept.
const MOST: usize = 4096;

/// Answers of the API server, each until its time is over.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    entries: Mutex<HashMap<K, Entry<V>>>,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    until: Instant,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    pub(crate) fn new() -> Self {
        Self { entries: Mutex::new(HashMap::new()) }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).filter(|entry| Instant::now() < entry.until).map(|entry| entry.value.clone())
    }

    /// Keeps an answer for this time. If the cache is full, the answer that would end first goes.
    pub(crate) fn put(&self, key: K, value: V, ttl: Duration) {
        let now = Instant::now();
        let Some(until) = now.checked_add(ttl).filter(|until| *until > now) else { return };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MOST && !entries.contains_key(&key) {
            entries.retain(|_, entry| now < entry.until);
            if entries.len() >= MOST {
                let first = entries.iter().min_by_key(|(_, entry)| entry.until).map(|(key, _)| key.clone());
                first.and_then(|first| entries.remove(&first));
            }
        }
        entries.insert(key, Entry { value, until });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_with_its_time_and_one_without_time_is_not_kept() {
        let cache = Cache::new();
        cache.put("a", 1, Duration::from_secs(10));
        cache.put("b", 2, Duration::ZERO);
        assert_eq!((cache.get(&"a"), cache.get(&"b")), (Some(1), None));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(cache.get(&"a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn it_does_not_grow_without_end() {
        let cache = Cache::new();
        for number in 0..=MOST {
            cache.put(number, (), Duration::from_millis(u64::try_from(number).unwrap() + 1000));
        }
        assert_eq!((cache.get(&0), cache.get(&1), cache.get(&MOST)), (None, Some(()), Some(())));
        assert_eq!(cache.entries.lock().unwrap().len(), MOST);
    }
}
