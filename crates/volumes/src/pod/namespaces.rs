//! User namespaces that no pod has any more.

use kernel::{Dir, Kernel};

use super::dir::{self, IfMissing};
use super::homes::Homes;
use crate::error::Result;
use crate::record::{Record, Users};
use types::PodUid;

/// The user namespaces of all pods of an agent.
pub(crate) struct Namespaces<'a> {
    pub(crate) kernel: &'a dyn Kernel,
    pub(crate) homes: &'a Homes,
}

impl Namespaces<'_> {
    /// Releases the namespace of these users, unless a pod other than `leaving` has it by its record.
    pub(crate) fn forget(&self, users: &Users, leaving: Option<&PodUid>) -> Result<()> {
        match users.maps() {
            Some(maps) if !self.is_used(users, leaving)? => Ok(self.kernel.forget_user_namespace(&maps)?),
            _ => Ok(()),
        }
    }

    fn is_used(&self, users: &Users, leaving: Option<&PodUid>) -> Result<bool> {
        let others = self.homes.pods()?.into_iter().filter(|(_, pod)| Some(pod) != leaving);
        Ok(others.into_iter().any(|(home, pod)| match users_in(home, &pod) {
            Ok(found) => found.as_ref() == Some(users),
            // A record that cannot be read keeps no other pod from going; at worst a descriptor stays.
            Err(_) => true,
        }))
    }

    /// The users that the pod's volumes were made for, by its record.
    pub(crate) fn users_of(&self, pod: &PodUid) -> Result<Option<Users>> {
        users_in(&self.homes.own, pod)
    }
}

fn users_in(home: &Dir, pod: &PodUid) -> Result<Option<Users>> {
    let Some(dir) = dir::peek(home, pod, IfMissing::Leave)? else { return Ok(None) };
    Ok(Record::read(&dir)?.and_then(|record| record.users))
}
