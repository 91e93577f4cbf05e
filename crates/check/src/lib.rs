//! Which workloads can be isolated, and which volumes conflict, before an upgrade shows it.
//!
//! The objects come from files by [`input`] or from a live cluster by [`cluster`]; the crate `inventory` keeps what is
//! needed of them. [`judge`] takes the objects and a [`Question`] and returns a [`Report`], which the crate `report` renders.
//!
//! | module | contents |
//! |---|---|
//! | `judge` | from the objects and a question to the report |
//! | `facts`, `userns` | user namespaces: what nodes can do, and what the planner says of each workload |
//! | `pairs`, `crowd`, `remarks`, `shared`, `drivers` | SELinux: what the conflict engine found, by workload and by volume |
//! | `fixes`, `patch`, `breaks` | what settles a conflict, changes to objects, what the upgrade breaks |
//! | `report` | the answer: a contract with programs |

mod breaks;
pub mod cluster;
mod crowd;
mod drivers;
mod facts;
mod fixes;
pub mod input;
mod judge;
mod pairs;
mod patch;
mod remarks;
mod report;
mod shared;
mod userns;

pub use judge::{Question, Version, judge};
pub use report::{
    Apply, BeforeAfter, Break, BreakRule, Conflict, ConflictSide, Driver, Fix, FixOption, GatesAt, How, Now,
    ObjectRef, Patch, PodSecurity, Problem, Property, Reason, Report, Selinux, SelinuxFinding, SelinuxRule,
    Severity, SourcePosition, Summary, Target, Upgrade, User, UserNamespace, Verdict, Violation, Volume,
    Weight, When, Workload,
};
