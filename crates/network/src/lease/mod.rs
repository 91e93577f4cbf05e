//! Which pod has which address and which ports of the host, on disk.
//!
//! ```text
//! <state>/network/leases/10.244.77.2     {"version":1,"sandbox":"…","pod":"namespace/name",…}
//! <state>/network/last                   10.244.77.2
//! ```
//!
//! A lease is a file named after its address, which is complete or does not exist. It is written before anything is
//! created for the pod, and removed after all of that is gone: whatever exists without a lease is an orphan.

mod book;
mod pool;
mod record;
mod store;

pub(crate) use book::Book;
pub(crate) use record::Record;
