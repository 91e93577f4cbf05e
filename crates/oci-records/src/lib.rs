//! The records of `wardlet-oci`: the state of each container whose pod asks for a user namespace by annotation.
//!
//! - [`Record`]: one container, its pod, and whether it has a user namespace ([`Standing`]).
//! - [`Records`]: the files of a node, one for each container.
//! - [`Creator`], [`first_process`], [`init_of`], [`gone`]: whether a container or its creator still runs.
//! - [`sweep`]: releases the leases of sandboxes that ended without being deleted.
//! - [`holder`]: the name under which a sandbox holds its lease in the ledger.
//!
//! `wardlet-oci` writes the records; `wardlet verify` and `wardlet ids gc` read them. `wardlet-oci` is started for each
//! call of an OCI runtime: no dependency may bring in an async runtime or a server.

mod alive;
mod error;
mod names;
mod pod;
mod record;
mod store;
mod sweep;

pub use alive::{Creator, first_process, init_of};
pub use error::{Error, Result};
pub use names::holder;
pub use pod::Pod;
pub use record::{Record, Standing, VERSION, gone};
pub use store::Records;
pub use sweep::{Swept, needs_sweep, sweep};
