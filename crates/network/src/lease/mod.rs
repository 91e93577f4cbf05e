//! Who has which address and which ports of the host, durably.
//!
//! ```text
//! <state>/network/leases/10.244.77.2     {"version":1,"sandbox":"…","pod":"namespace/name",…}
//! <state>/network/last                   10.244.77.2
//! ```
//!
//! A lease is a file named after its address, which is whole or not there. It is there before anything is
//! made for the pod, and goes after all of that is gone: whatever is found at a pod that has none is nobody's.

mod book;
mod pool;
mod record;
mod store;

pub(crate) use book::Book;
pub(crate) use record::Record;
