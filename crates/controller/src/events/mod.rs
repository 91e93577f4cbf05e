//! Events of pods: one for each pod, volume and property, over restarts and changes of the leader.
//!
//! - [`notice`]: what an event is about, and its text.
//! - [`plan`]: which events are to be sent. Pure.
//! - [`document`]: an event in the API. Its name follows from what it is about, so that the API server refuses a second one.
//! - [`pace`]: how fast events are sent.
//! - [`run`]: sends them while this replica leads.
//!
//! An event is created and never changed. It names the pods that conflict when it is sent; when others come, their own
//! events name this pod.

mod document;
mod notice;
mod pace;
mod plan;
mod sender;

pub(crate) use sender::{Sender, run};
