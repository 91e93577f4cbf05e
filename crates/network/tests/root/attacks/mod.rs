//! Attacks on the network of pods and of their host: each is carried out as a tenant would, and must fail.

mod host_ports;
