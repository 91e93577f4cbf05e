//! Does one thing to a pod's network and ends: for tests that kill it on the way.
//!
//! `network_actor STATE bridge|CNI_CONF_DIR:CNI_BIN_DIR ID NETNS set-up|tear-down|recover`, in the host's
//! network namespace.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use network::{HostPort, Kind, Network, Pod, Protocol, Settings};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [state, kind, id, netns, what] = <[String; 5]>::try_from(words).unwrap();
    let kind = match kind.split_once(':') {
        Some((conf_dir, bin_dir)) => Kind::Cni { conf_dir: conf_dir.into(), bin_dirs: vec![bin_dir.into()] },
        None => Kind::default(),
    };
    let network = Network::open(Settings { state: state.into(), kind }).await.unwrap();
    match what.as_str() {
        "set-up" => drop(network.set_up(&pod(id, netns.into())).await.unwrap()),
        "tear-down" => network.tear_down(&id, Some(Path::new(&netns))).await.unwrap(),
        // As a server does that finds no sandbox to a lease.
        "recover" => {
            for id in network.leases().await.unwrap() {
                network.tear_down(&id, None).await.unwrap();
            }
        }
        other => panic!("{other}"),
    }
}

fn pod(id: String, netns: PathBuf) -> Pod {
    let port = |protocol, host_port| HostPort { protocol, host_ip: None, host_port, container_port: 80 };
    Pod {
        id,
        name: "actor".to_owned(),
        namespace: "default".to_owned(),
        uid: "uid".to_owned(),
        netns,
        host_ports: vec![port(Protocol::Tcp, 8080), port(Protocol::Udp, 8080)],
        annotations: [].into(),
    }
}
