//! An OCI runtime that stands in front of another one.
//!
//! containerd or CRI-O call it as they would call runc; it gives pods that ask for it a user namespace
//! of their own, and hands everything else over to the real runtime unseen.
//!
//! | module | what it knows |
//! |---|---|
//! | [`hand_over`] | becoming the real runtime |

pub mod hand_over;
