//! Answers for readers.
//!
//! The crates below decide and return data; this crate renders that data. It decides nothing, and
//! of the node's files reads only logs.
//!
//! - [`check`]: the answer of `check` as text; [`html`], [`sarif`], [`junit`]: the same for browsers, code scanning and CI;
//!   [`patches`]: its patches as files.
//! - [`pages`]: what the pages of the agent and of the controller show, as data; [`html`] has the pages.
//! - [`doctor`]: the checks of a node; [`verify`]: its pods and violations.
//! - [`pods`], [`logs`]: the pods of `run` and what they print; [`images`]: the image store.
//! - [`explain`]: what would happen to pods; [`leases`]: what the `ids` commands show.
//! - [`table`], [`wrapped`], [`WIDTH`]: columns and paragraphs that fit a terminal.
//! - [`printable`], [`Pieces`]: text of pods, images and registries without control characters.
//! - [`alike`]: one message in place of many that say the same.
//! - [`Picture`]: the host ID space, drawn.

mod alike;
pub mod check;
pub mod doctor;
pub mod explain;
pub mod html;
pub mod images;
pub mod junit;
pub mod leases;
pub mod logs;
pub mod pages;
pub mod patches;
mod picture;
pub mod pods;
mod printable;
pub mod sarif;
mod table;
pub mod verify;

pub use alike::alike;
pub use picture::Picture;
pub use printable::{Pieces, printable};
pub use table::{WIDTH, table, wrapped};
