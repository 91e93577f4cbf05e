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
    /// Packets for which there was no room.
    pub dropped: u64,
}

impl From<&Interface> for Link {
    fn from(from: &Interface) -> Self {
        let received = Flow {
            bytes: from.rx_bytes,
            packets: from.rx_packets,
            errors: from.rx_errors,
            dropped: from.rx_dropped,
        };
        let sent = Flow {
            bytes: from.tx_bytes,
            packets: from.tx_packets,
            errors: from.tx_errors,
            dropped: from.tx_dropped,
        };
        Self { name: from.name.clone(), received, sent }
    }
}
