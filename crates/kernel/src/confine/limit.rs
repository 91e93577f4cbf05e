use rustix::io::Errno;
use rustix::process::{Rlimit, setrlimit};

use super::Limit;

impl Limit {
    /// Sets the hard limit, and the soft limit to the same, for the calling process and its children. Raising a hard
    /// limit takes a capability that has no effect in another user namespace, so this is done before that is joined.
    pub fn make_room(&self) -> Result<(), Errno> {
        setrlimit(self.resource, Rlimit { current: number(self.hard), maximum: number(self.hard) })
    }

    /// Sets the limit of the calling process: without a capability, up to the hard limit.
    pub fn settle(&self) -> Result<(), Errno> {
        setrlimit(self.resource, Rlimit { current: number(self.soft), maximum: number(self.hard) })
    }
}

fn number(value: u64) -> Option<u64> {
    if value == u64::MAX { None } else { Some(value) }
}
