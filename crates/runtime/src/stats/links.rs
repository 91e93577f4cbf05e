//! What went over a pod's network.

use network::Interface;

/// One interface of a pod's network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// What came in.
    pub received: Flow,
    /// What went out.
    pub sent: Flow,
}

/// One direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that were damaged.
    pub errors: u64,
    /// Packets for which there was no room, where that is counted.
    pub dropped: Option<u64>,
}

impl Link {
    /// All interfaces of a `/proc/PID/net/dev`, but loopback.
    #[must_use]
    pub fn parse(text: &str) -> Vec<Self> {
        text.lines().filter_map(line).filter(|link| link.name != "lo").collect()
    }
}

fn line(line: &str) -> Option<Link> {
    let (name, numbers) = line.split_once(':')?;
    let numbers: Vec<u64> = numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    // Eight of each direction, of which the first four are these.
    let flow = |first: usize| {
        let [bytes, packets, errors, dropped] = *numbers.get(first..first.checked_add(4)?)? else {
            return None;
        };
        Some(Flow { bytes, packets, errors, dropped: Some(dropped) })
    };
    Some(Link { name: name.trim().to_owned(), received: flow(0)?, sent: flow(8)? })
}

impl From<&Interface> for Link {
    fn from(from: &Interface) -> Self {
        let flow = |bytes, packets, errors| Flow { bytes, packets, errors, dropped: None };
        Self {
            name: from.name.clone(),
            received: flow(from.rx_bytes, from.rx_packets, from.rx_errors),
            sent: flow(from.tx_bytes, from.tx_packets, from.tx_errors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0: 1500 12 3 4 0 0 0 0 2500 22 5 6 0 0 0 0
";

    #[test]
    fn the_kernels_table_is_read_without_loopback() {
        let received = Flow { bytes: 1500, packets: 12, errors: 3, dropped: Some(4) };
        let sent = Flow { bytes: 2500, packets: 22, errors: 5, dropped: Some(6) };
        assert_eq!(Link::parse(TEXT), [Link { name: "eth0".into(), received, sent }]);
    }

    #[test]
    fn this_hosts_own_table_is_understood() {
        let text = std::fs::read_to_string("/proc/self/net/dev").unwrap();
        assert_eq!(Link::parse(&text).len() + 1, text.lines().count() - 2);
    }

    #[test]
    fn what_is_no_line_of_it_is_passed_over() {
        assert_eq!(Link::parse("eth0: 1 2 3\nx\n: \n"), []);
    }
}
