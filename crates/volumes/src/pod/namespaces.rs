//! User namespaces that no pod has any more.

use kernel::{Dir, Kernel};

use super::dir::{self, IfMissing};
use crate::error::Result;
use crate::record::{Record, Users};
use types::PodUid;

/// The user namespaces of all pods under one state directory.
pub(crate) struct Namespaces<'a> {
    pub(crate) kernel: &'a dyn Kernel,
    pub(crate) state: &'a Dir,
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
        let others = dir::all(self.state)?.into_iter().filter(|pod| Some(pod) != leaving);
        Ok(others.into_iter().any(|pod| match self.users_of(&pod) {
            Ok(found) => found.as_ref() == Some(users),
            // A record that cannot be read keeps no other pod from going; at worst a descriptor stays.
            Err(_) => true,
        }))
    }

    /// The users that the pod's volumes were made for, by its record.
    pub(crate) fn users_of(&self, pod: &PodUid) -> Result<Option<Users>> {
        let Some(dir) = dir::peek(self.state, pod, IfMissing::Leave)? else { return Ok(None) };
        Ok(Record::read(&dir)?.and_then(|record| record.users))
    }
}
