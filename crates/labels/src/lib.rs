//! SELinux labels. For now the part that keeps pods apart: pairs of MCS categories.

mod categories;

pub use categories::{CategoryPair, NotAPair};
