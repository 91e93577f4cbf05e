use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{HeaderValue, RETRY_AFTER};

use super::answer::{Answer, text};

/// Seconds after which a client that found no place may try again.
const RETRY: HeaderValue = HeaderValue::from_static("10");

/// Places for what clients keep open, of which there is a greatest number. One user takes at most three quarters of them, so
/// that there is always one for another user. All users of the API server are one user here.
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
    /// Only users with a place.
    of_user: HashMap<String, usize>,
}

/// A place, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    user: String,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The user has its part: 429.
    OfUser(&'static str),
    /// All are taken: 503.
    All(&'static str),
}

/// The most places that one user has of so many.
pub(super) fn share(most: usize) -> usize {
    (most.saturating_mul(3) / 4).max(1)
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
        let mut taken = self.taken();
        let own = taken.of_user.get(user).copied().unwrap_or(0);
        if own >= share(self.most) {
            return Err(Full::OfUser(self.what));
        }
        if taken.all >= self.most {
            return Err(Full::All(self.what));
        }
        taken.all += 1;
        taken.of_user.insert(user.to_owned(), own + 1);
        Ok(Place { places: Arc::clone(self), user: user.to_owned() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all = taken.all.saturating_sub(1);
        match taken.of_user.get_mut(&self.user) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taken.of_user.remove(&self.user)),
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
        let mut answer = match self {
            Self::OfUser(what) => {
                let words = format!(
                    "this user has too many {what} open on this node; close some of them, or try again later"
                );
                text(StatusCode::TOO_MANY_REQUESTS, words)
            }
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
        assert_eq!((left.all, left.of_user.len()), (0, 0));
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
