use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plan::{Facts, Intent, RuntimeFacts, Support};

use super::probe::{self, Subject, Tried};
use super::{Assumptions, found};
use crate::{Error, Node};

/// How long what worked is taken to work still. What does not any more, by a sysctl or a mount, refuses a pod later, with
/// the kernel's error.
const KEPT: Duration = Duration::from_secs(10);

/// What this kernel was found to support a moment ago. Where many pods start at once, it is tried for one of them, not by
/// all at the same time: each trial reads the table of all mounts.
#[derive(Debug, Default)]
pub struct KeptTrials(Mutex<Option<(Instant, Tried)>>);

impl KeptTrials {
    /// The same as [`super::of_node`].
    ///
    /// # Errors
    /// If the node's configuration is wrong.
    pub fn of_node(
        &self,
        node: &Node,
        intents: &[&Intent],
        runtime: Option<RuntimeFacts>,
    ) -> Result<(Facts, Assumptions), Error> {
        found(node, intents, runtime, |subject, notes| {
            self.tried(subject, |subject| probe::tried(subject, notes))
        })
    }

    /// Paths of the host are always looked at, and so is what did not work.
    fn tried(&self, subject: &Subject<'_>, try_now: impl FnOnce(&Subject<'_>) -> Tried) -> Tried {
        if !subject.host_paths.is_empty() {
            return try_now(subject);
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tried)) = kept.as_ref().filter(|(at, _)| at.elapsed() < KEPT) {
            return tried.clone();
        }
        let tried = try_now(subject);
        let works =
            tried.1.idmap.values().chain([&tried.0.user_namespaces]).all(|found| *found == Support::Yes);
        *kept = works.then(|| (Instant::now(), tried.clone()));
        tried
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use census::HostRoot;
    use plan::{FilesystemFacts, KernelFacts};

    use super::*;

    #[test]
    fn what_works_is_tried_once_and_what_does_not_and_paths_of_the_host_each_time() {
        let root = HostRoot::default();
        let subject = |paths: &[&'static str]| Subject {
            host_root: &root,
            state_dir: Path::new("/"),
            host_paths: paths.iter().copied().collect::<BTreeSet<_>>(),
        };
        let facts = |user_namespaces: &Support| {
            let kernel = KernelFacts {
                user_namespaces: user_namespaces.clone(),
                max_user_namespaces: 9,
                idmapped_mounts: Support::Yes,
            };
            (kernel, FilesystemFacts::default())
        };
        let trials = KeptTrials::default();
        let mut count = 0;
        let mut ask = |support: Support, paths: &[&'static str]| {
            let found = trials.tried(&subject(paths), |_| {
                count += 1;
                facts(&support)
            });
            (count, found.0.user_namespaces == Support::Yes)
        };
        assert_eq!(ask(Support::No("EPERM".to_owned()), &[]), (1, false));
        assert_eq!(ask(Support::Yes, &[]), (2, true));
        assert_eq!(ask(Support::No("EPERM".to_owned()), &[]), (2, true));
        assert_eq!(ask(Support::No("EPERM".to_owned()), &["/srv"]), (3, false));
        assert_eq!(ask(Support::Yes, &[]), (3, true));
    }
}
