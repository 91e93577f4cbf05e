//! The host IDs that the node of a testbed gives to pods. No two testbeds have the same at a time: an agent takes a block back
//! only when no process of the machine has IDs of it, and it does not know which agent started a process.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::{Error, Result};

/// Above everything that other tests use.
const FIRST: u32 = 38_912 * 65_536;
/// One block for each pod of the node: `maxPods` of etc/kubelet.yaml.
const BLOCKS: u32 = 260;
const COUNT: u32 = BLOCKS * 65_536;
const WHAT: &str = "a range of host IDs of its own";
/// So many ranges fit below the last ID.
const RANGES: u32 = 100;
const _: () = assert!(u32::MAX - FIRST >= RANGES * COUNT, "the last range ends below the last ID");

/// A range that is ours for as long as this value lives: the socket goes with the process, however that ends.
#[derive(Debug)]
pub(super) struct Claim {
    number: u32,
    _held: UnixListener,
}

impl Claim {
    /// Claims a free range.
    pub(super) fn new() -> Result<Self> {
        for number in 0..RANGES {
            let address = SocketAddr::from_abstract_name(format!("wardlet-testbed-host-ids-{number}"));
            match address.and_then(|address| UnixListener::bind_addr(&address)) {
                Ok(held) => return Ok(Self { number, _held: held }),
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => return Err(Error::CannotBeHad { what: WHAT.into(), cause: error.to_string() }),
            }
        }
        Err(Error::CannotBeHad {
            what: WHAT.into(),
            cause: format!("{RANGES} other testbeds of this machine have one each; take some down"),
        })
    }

    /// Its number, for the record.
    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

/// The line of the range with this number in /etc/subuid and /etc/subgid.
pub(super) fn line(number: u32) -> String {
    format!("kubelet:{}:{COUNT}\n", FIRST + number * COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_claims_have_different_ranges() {
        let claims = [Claim::new().unwrap(), Claim::new().unwrap()];
        assert_ne!(claims[0].number(), claims[1].number());
    }

    #[test]
    fn the_last_range_is_below_the_last_id() {
        assert_eq!(line(0), "kubelet:2550136832:17039360\n");
        assert_eq!(line(RANGES - 1), "kubelet:4237033472:17039360\n");
    }

    #[test]
    fn each_pod_of_a_full_node_has_a_block() {
        let config = include_str!("../../etc/kubelet.yaml");
        assert!(config.lines().any(|line| line == format!("maxPods: {BLOCKS}")), "{config}");
    }
}
