//! Attacks on the wrapper, each of which once worked. Needs root.

mod another_pods_block;
mod crio;
mod many_ids;
