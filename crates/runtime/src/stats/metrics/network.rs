use cri::MetricType::Counter;

use super::super::{Flow, Link, Sandbox};
use super::known::{Known, Value};

const LABELS: &[&str] = &["interface"];

macro_rules! flow {
    ($name:literal, $help:literal, $direction:ident, $of:expr) => {
        Known {
            name: $name,
            help: $help,
            kind: Counter,
            labels: LABELS,
            values: |of, _| each(of, |link| $of(&link.$direction)),
        }
    };
}

/// Of a sandbox: its containers share one network.
pub(super) const ALL: &[Known<Sandbox>] = &[
    flow!("container_network_receive_bytes_total", "Bytes received.", received, bytes),
    flow!("container_network_receive_packets_total", "Packets received.", received, packets),
    flow!("container_network_receive_errors_total", "Errors while receiving.", received, errors),
    flow!(
        "container_network_receive_packets_dropped_total",
        "Packets dropped while receiving.",
        received,
        dropped
    ),
    flow!("container_network_transmit_bytes_total", "Bytes sent.", sent, bytes),
    flow!("container_network_transmit_packets_total", "Packets sent.", sent, packets),
    flow!("container_network_transmit_errors_total", "Errors while sending.", sent, errors),
    flow!(
        "container_network_transmit_packets_dropped_total",
        "Packets dropped while sending.",
        sent,
        dropped
    ),
];

fn bytes(of: &Flow) -> u64 {
    of.bytes
}

fn packets(of: &Flow) -> u64 {
    of.packets
}

fn errors(of: &Flow) -> u64 {
    of.errors
}

fn dropped(of: &Flow) -> u64 {
    of.dropped
}

fn each(of: &Sandbox, value: impl Fn(&Link) -> u64) -> Vec<Value> {
    let one = |link: &Link| Value { labels: vec![link.name.clone()], value: value(link) };
    of.links.iter().map(one).collect()
}
