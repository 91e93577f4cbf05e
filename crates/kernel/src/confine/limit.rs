use rustix::io::Errno;
use rustix::process::{Rlimit, setrlimit};

use super::Limit;

impl Limit {
    /// Sets how far it may be raised, and that much for now, for the calling process and those it starts.
    /// More than one's own takes a capability that is worth nothing in another user namespace, so this is
    /// done before that is joined.
    pub fn make_room(&self) -> Result<(), Errno> {
        setrlimit(self.resource, Rlimit { current: number(self.hard), maximum: number(self.hard) })
    }

    /// Sets what holds, for the calling process: anybody may, up to what there is room for.
    pub fn settle(&self) -> Result<(), Errno> {
        setrlimit(self.resource, Rlimit { current: number(self.soft), maximum: number(self.hard) })
    }
}

fn number(value: u64) -> Option<u64> {
    if value == u64::MAX { None } else { Some(value) }
}
