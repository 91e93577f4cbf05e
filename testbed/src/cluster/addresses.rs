//! Names and addresses inside a testbed. Each testbed has its own network namespace, so they can be fixed.

/// The node's name.
pub const NODE_NAME: &str = "node0";
/// The node's address, on one end of a veth that leads nowhere.
pub const NODE_IP: &str = "10.240.0.10";
/// The API server's address as a service.
pub const SERVICE_IP: &str = "10.96.0.1";
/// etcd, for clients.
pub const ETCD: &str = "127.0.0.1:2379";
/// The API server as tests and controllers reach it.
pub const API_SERVER: &str = "127.0.0.1:6443";
/// The registry, without any authentication.
pub const REGISTRY: &str = "127.0.0.1:5000";
/// The registry behind a user name and a password.
pub const REGISTRY_BASIC: &str = "127.0.0.1:5001";
/// The registry behind bearer tokens.
pub const REGISTRY_TOKEN: &str = "127.0.0.1:5002";
/// Where tokens are given out.
pub const TOKEN_SERVER: &str = "127.0.0.1:5003";
/// The first registry through the proxy that makes faults.
pub const FAULT_PROXY: &str = "127.0.0.1:5005";
