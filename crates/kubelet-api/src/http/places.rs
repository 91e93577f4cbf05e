use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{HeaderValue, RETRY_AFTER};

use super::answer::{Answer, text};

/// Seconds after which a client that found no place may try again.
const RETRY: HeaderValue = HeaderValue::from_static("10");

/// Places for what clients keep open, of which there is a greatest number. One user takes at most three quarters of them, so
/// that there is always one for another user. All users of the API server are one user here: of its places, one namespace
/// takes at most a half, and one pod three eighths, so that no tenant keeps the others out.
#[derive(Debug)]
pub(crate) struct Places {
    /// What the places are for, in words.
    what: &'static str,
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Only holders with a place.
    of: HashMap<Holder, usize>,
}

/// What has at most a part of the places.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    User(String),
    /// A user, for pods of a namespace.
    Namespace(String, String),
    /// A user, for a pod by namespace and name.
    Pod(String, String, String),
}

/// Places of one holder, which are free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    holders: Vec<Holder>,
    count: usize,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The user has its part: 429.
    OfUser(&'static str),
    /// The user has its part for pods of this namespace: 429.
    OfNamespace(&'static str),
    /// The user has its part for this pod: 429.
    OfPod(&'static str),
    /// All are taken: 503.
    All(&'static str),
}

/// The most places that one user has of so many.
pub(super) fn share(most: usize) -> usize {
    (most.saturating_mul(3) / 4).max(1)
}

impl Holder {
    /// The most places that it has of so many.
    fn share(&self, most: usize) -> usize {
        match self {
            Self::User(_) => share(most),
            Self::Namespace(..) => (most / 2).max(1),
            Self::Pod(..) => (most.saturating_mul(3) / 8).max(1),
        }
    }

    fn full(&self, what: &'static str) -> Full {
        match self {
            Self::User(_) => Full::OfUser(what),
            Self::Namespace(..) => Full::OfNamespace(what),
            Self::Pod(..) => Full::OfPod(what),
        }
    }
}

impl Places {
    pub(crate) fn new(what: &'static str, most: usize) -> Arc<Self> {
        Arc::new(Self { what, most, taken: Mutex::default() })
    }

    /// Takes a place for a user.
    ///
    /// # Errors
    /// If there is none for this user.
    pub(crate) fn take(self: &Arc<Self>, user: &str) -> Result<Place, Full> {
        self.take_many(user, 1)
    }

    /// Takes so many places for a user; also more than its part, if it has no other.
    ///
    /// # Errors
    /// If there are not so many for this user.
    pub(crate) fn take_many(self: &Arc<Self>, user: &str, count: usize) -> Result<Place, Full> {
        self.take_for(vec![Holder::User(user.to_owned())], count)
    }

    /// Takes a place for a user and a pod.
    ///
    /// # Errors
    /// If there is none for this user and this pod.
    pub(crate) fn take_of_pod(
        self: &Arc<Self>,
        user: &str,
        namespace: &str,
        pod: &str,
    ) -> Result<Place, Full> {
        let [user, namespace, pod] = [user, namespace, pod].map(str::to_owned);
        let holders = vec![
            Holder::User(user.clone()),
            Holder::Namespace(user.clone(), namespace.clone()),
            Holder::Pod(user, namespace, pod),
        ];
        self.take_for(holders, 1)
    }

    fn take_for(self: &Arc<Self>, holders: Vec<Holder>, count: usize) -> Result<Place, Full> {
        let mut taken = self.taken();
        for holder in &holders {
            let own = taken.of.get(holder).copied().unwrap_or(0);
            if own > 0 && own.saturating_add(count) > holder.share(self.most) {
                return Err(holder.full(self.what));
            }
        }
        if taken.all > 0 && taken.all.saturating_add(count) > self.most {
            return Err(Full::All(self.what));
        }
        taken.all = taken.all.saturating_add(count);
        for holder in &holders {
            let own = taken.of.entry(holder.clone()).or_default();
            *own = own.saturating_add(count);
        }
        Ok(Place { places: Arc::clone(self), holders, count })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all = taken.all.saturating_sub(self.count);
        for holder in &self.holders {
            match taken.of.get_mut(holder) {
                Some(own) if *own > self.count => *own -= self.count,
                _ => drop(taken.of.remove(holder)),
            }
        }
    }
}

impl Place {
    /// Bytes that keep the place until the connection has written them.
    pub(super) fn hold(self, bytes: impl Into<Vec<u8>>) -> Bytes {
        Bytes::from_owner(Held { bytes: bytes.into(), _place: self })
    }
}

struct Held {
    bytes: Vec<u8>,
    _place: Place,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Full {
    /// The answer to a client that has no place.
    pub(super) fn answer(self) -> Answer {
        let too_many = |of: &str, what: &str| {
            let words = format!(
                "this user has too many {what}{of} open on this node; close some of them, or try again later"
            );
            text(StatusCode::TOO_MANY_REQUESTS, words)
        };
        let mut answer = match self {
            Self::OfUser(what) => too_many("", what),
            Self::OfNamespace(what) => too_many(" of this namespace", what),
            Self::OfPod(what) => too_many(" of this pod", what),
            Self::All(what) => {
                let words = format!("too many {what} are open on this node; try again later");
                text(StatusCode::SERVICE_UNAVAILABLE, words)
            }
        };
        answer.headers_mut().insert(RETRY_AFTER, RETRY);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_room_for_another() {
        let places = Places::new("sessions", 8);
        let mut taken: Vec<Place> = (0..6).map(|_| places.take("jane").unwrap()).collect();
        assert_eq!(places.take("jane").unwrap_err(), Full::OfUser("sessions"));
        taken.extend((0..2).map(|_| places.take("joe").unwrap()));
        assert_eq!(places.take("joe").unwrap_err(), Full::All("sessions"));
        assert_eq!(places.take("ann").unwrap_err().answer().status(), StatusCode::SERVICE_UNAVAILABLE);
        taken.clear();
        let left = places.taken();
        assert_eq!((left.all, left.of.len()), (0, 0));
    }

    /// All users of the API server are one user here: a client that may follow logs of one namespace could take all of its places.
    #[test]
    fn a_user_has_a_part_of_its_places_for_each_pod_and_namespace() {
        let places = Places::new("logs", 16);
        let take = |namespace, pod| places.take_of_pod("apiserver", namespace, pod);
        let mut taken: Vec<Place> = (0..6).map(|_| take("shop", "web").unwrap()).collect();
        assert_eq!(take("shop", "web").unwrap_err(), Full::OfPod("logs"));
        taken.extend((0..2).map(|_| take("shop", "db").unwrap()));
        assert_eq!(take("shop", "db").unwrap_err(), Full::OfNamespace("logs"));
        taken.extend((0..4).map(|_| take("bank", "web").unwrap()));
        assert_eq!(take("bank", "web").unwrap_err(), Full::OfUser("logs"));
        assert!(places.take_of_pod("jane", "shop", "web").is_ok());
        assert_eq!(Full::OfPod("logs").answer().status(), StatusCode::TOO_MANY_REQUESTS);
        taken.clear();
        let left = places.taken();
        assert_eq!((left.all, left.of.len()), (0, 0));
    }

    #[test]
    fn what_is_larger_than_the_part_of_a_user_is_alone() {
        let places = Places::new("bytes of answers", 8);
        let large = places.take_many("jane", 100).unwrap();
        assert_eq!(places.take_many("jane", 1).unwrap_err(), Full::OfUser("bytes of answers"));
        assert_eq!(places.take_many("joe", 1).unwrap_err(), Full::All("bytes of answers"));
        drop(large);
        let _small = places.take_many("jane", 4).unwrap();
        assert_eq!(places.take_many("jane", 3).unwrap_err(), Full::OfUser("bytes of answers"));
        assert!(places.take_many("jane", 2).is_ok());
    }

    #[test]
    fn a_place_is_free_when_its_bytes_are_written() {
        let places = Places::new("answers", 1);
        let mut bytes = places.take("jane").unwrap().hold(vec![1, 2, 3]);
        let rest = bytes.split_off(1);
        drop(bytes);
        assert_eq!(places.take("jane").unwrap_err(), Full::OfUser("answers"));
        assert_eq!(&rest[..], [2, 3]);
        drop(rest);
        assert!(places.take("jane").is_ok());
    }
}
