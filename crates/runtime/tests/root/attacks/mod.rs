//! Attacks on the built-in runtime, one module for each finding. See docs/threat-model.md.

mod verify_other_cgroup;
