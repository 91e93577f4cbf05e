//! What would happen to the pods of some manifests here, and why.
//!
//! - [`input`]: manifests from files, directories and standard input, read strictly.
//! - [`facts`]: the node's facts, from a file or as tried by [`probe`], [`selinux`] and [`pool`].
//! - [`verdict`]: one pod and what became of it.
//! - [`view`], [`text`]: the answer for programs and for people.

pub(crate) mod facts;
pub(crate) mod input;
mod pool;
mod probe;
pub(crate) mod selinux;
pub(crate) mod text;
pub(crate) mod verdict;
pub(crate) mod view;
