//! Attacks on the wrapper, each of which once worked. Needs root.

mod another_pods_block;
mod crio;
mod dev_link;
mod left_namespace;
mod many_ids;
mod same_name;
