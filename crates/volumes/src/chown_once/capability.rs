use rustix::io::Errno;

/// File capabilities as the kernel stores them, little-endian:
///
/// ```text
/// 0   4   revision in the top byte (2 or 3), flags
/// 4   16  the sets
/// 20  4   revision 3 only: the user that is root of the namespace they hold in
/// ```
///
/// Those of revision 2 hold where the filesystem's root user is root: on the host. In the pod's user
/// namespace only those hold that name its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileCapability {
    /// Flags and sets, without the revision.
    flags: u32,
    sets: [u8; 16],
    pub(crate) root: u32,
}

const REVISION: u32 = 0xff00_0000;
const REVISION_2: u32 = 0x0200_0000;
const REVISION_3: u32 = 0x0300_0000;

impl FileCapability {
    pub(crate) fn parse(raw: &[u8]) -> Result<Self, Errno> {
        let word = |at: usize| raw.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
        let magic = word(0).ok_or(Errno::INVAL)?;
        let sets = raw.get(4..20).and_then(|b| b.try_into().ok()).ok_or(Errno::INVAL)?;
        let root = match (magic & REVISION, raw.len()) {
            (REVISION_2, 20) => 0,
            (REVISION_3, 24) => word(20).ok_or(Errno::INVAL)?,
            _ => return Err(Errno::INVAL),
        };
        Ok(Self { flags: magic & !REVISION, sets, root })
    }

    /// The same, for another root.
    pub(crate) fn of_root(self, root: u32) -> Self {
        Self { root, ..self }
    }

    pub(crate) fn to_raw(&self) -> Vec<u8> {
        let revision = if self.root == 0 { REVISION_2 } else { REVISION_3 };
        let mut raw = (revision | self.flags).to_le_bytes().to_vec();
        raw.extend(self.sets);
        if self.root != 0 {
            raw.extend(self.root.to_le_bytes());
        }
        raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cap_net_raw=ep.
    const NET_RAW: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn the_hosts_capabilities_are_those_of_root_and_come_back_as_they_were() {
        let host = FileCapability::parse(&NET_RAW).unwrap();
        assert_eq!(host.root, 0);
        assert_eq!(host.to_raw(), NET_RAW);
        let pods = host.of_root(65_536).to_raw();
        assert_eq!((pods.len(), pods[3], &pods[20..]), (24, 3, &[0, 0, 1, 0][..]));
        assert_eq!(FileCapability::parse(&pods).unwrap().root, 65_536);
    }

    #[test]
    fn other_layouts_are_refused() {
        for raw in [&NET_RAW[..12], &NET_RAW[..19], &[], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(FileCapability::parse(raw), Err(Errno::INVAL));
        }
    }
}
