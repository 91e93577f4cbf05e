//! Answers of an API server for tests.

use std::sync::atomic::{AtomicUsize, Ordering};

use secure_serving::{AccessQuestion, BoxFuture, Reviews, User};

/// Answers that do not depend on the question.
pub(super) struct Fixed {
    token: Result<Option<User>, String>,
    access: Result<bool, String>,
    asked: AtomicUsize,
}

impl Fixed {
    pub(super) fn new(token: Result<Option<User>, String>, access: Result<bool, String>) -> Self {
        Self { token, access, asked: AtomicUsize::new(0) }
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Reviews for Fixed {
    fn token(&self, _: String) -> BoxFuture<'_, Result<Option<User>, String>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(self.token.clone()))
    }

    fn access(&self, _: AccessQuestion) -> BoxFuture<'_, Result<bool, String>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(self.access.clone()))
    }
}
