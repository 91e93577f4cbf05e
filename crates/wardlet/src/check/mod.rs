//! Which workloads can be isolated, and which volumes conflict, before an upgrade shows it.
//!
//! - [`objects`]: what is kept of the objects that are read: [`template`], [`makers`], [`pods`],
//!   [`placement`], [`driver_signs`], [`volumes`] and [`nodes`]. They come from files by [`input`] and
//!   [`stream`], or from a live [`cluster`].
//! - [`judge`]: the objects and a question to a [`report`].
//!   - Of user namespaces: [`workloads`], [`storage`], [`facts`] and [`userns`], which asks the planner.
//!   - Of SELinux: [`scene`] sets up the conflict engine; [`pairs`] (with [`crowd`]), [`remarks`],
//!     [`shared`] and [`drivers`] say what it found, [`fixes`] what would settle it.
//!   - [`patch`]: changes to objects; [`breaks`]: what the upgrade breaks.
//! - [`text`], [`write`]: the report for people, and its patches as files; [`html`], [`sarif`] and
//!   [`junit`]: the report as other programs want it.

mod breaks;
pub(crate) mod cluster;
mod crowd;
mod driver_signs;
mod drivers;
mod facts;
mod fixes;
pub(crate) mod html;
pub(crate) mod input;
pub(crate) mod judge;
pub(crate) mod junit;
mod makers;
mod nodes;
pub(crate) mod objects;
mod pairs;
mod patch;
mod placement;
mod pods;
mod remarks;
pub(crate) mod report;
pub(crate) mod sarif;
mod scene;
mod shared;
mod storage;
mod stream;
mod template;
pub(crate) mod text;
mod userns;
mod volumes;
mod workloads;
pub(crate) mod write;
