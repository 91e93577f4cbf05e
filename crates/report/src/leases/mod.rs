//! Leases of host IDs, as the `ids` commands show them: views for programs, which are a contract, and text.
//!
//! | module | contents |
//! |---|---|
//! | `lease`, `pair`, `verdict` | one lease; one category pair without a block; one lease on its way to being free |
//! | `list`, `gc`, `audit` | what the commands of these names show |

mod audit;
mod gc;
mod lease;
mod list;
mod pair;
mod verdict;

pub use audit::AuditView;
pub use gc::{Collection, OldLease};
pub use lease::{LeaseView, holder_name, lease_text};
pub use list::{leases_table, pool_text};
pub use pair::{PairView, pairs_table};
pub use verdict::{VerdictView, few, outcome_text};
