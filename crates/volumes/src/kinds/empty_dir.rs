use types::Quantity;

/// Scratch space that ends with its pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EmptyDir {
    /// Its medium.
    pub medium: Medium,
    /// How much it may hold; 0 is no limit. In memory the kernel enforces it; on disk the agent of a node, which evicts a
    /// pod that exceeds it.
    pub size_limit: Option<u64>,
    /// Its permissions; 0777 by default.
    pub mode: Option<u32>,
}

impl EmptyDir {
    /// Its size limit, if there is one.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.size_limit.filter(|limit| *limit > 0)
    }
}

/// The medium of an emptyDir.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Medium {
    /// The node's disk.
    #[default]
    Disk,
    /// Memory.
    Memory,
    /// Huge pages.
    HugePages {
        /// Their size in bytes; the default of the kernel if not set.
        page_size: Option<u64>,
    },
}

/// An unknown medium.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a medium: use \"\", \"Memory\", \"HugePages\" or \"HugePages-<size>\"")]
pub struct BadMedium(pub String);

impl Medium {
    /// The medium of this name: `HugePages-2Mi`.
    pub fn parse(name: &str) -> Result<Self, BadMedium> {
        let bad = || BadMedium(name.to_owned());
        match name {
            "" => Ok(Self::Disk),
            "Memory" => Ok(Self::Memory),
            "HugePages" => Ok(Self::HugePages { page_size: None }),
            _ => {
                let size = name.strip_prefix("HugePages-").ok_or_else(bad)?;
                Ok(Self::HugePages { page_size: Some(bytes(size).ok_or_else(bad)?) })
            }
        }
    }
}

/// The size of a page, which is a power of two bytes.
fn bytes(text: &str) -> Option<u64> {
    let size: Quantity = text.parse().ok()?;
    let bytes = u64::try_from(size.units()).ok()?;
    (size.is_whole() && bytes.is_power_of_two()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_named_as_in_a_pod() {
        assert_eq!(Medium::parse(""), Ok(Medium::Disk));
        assert_eq!(Medium::parse("Memory"), Ok(Medium::Memory));
        let huge = |page_size| Ok(Medium::HugePages { page_size });
        assert_eq!(Medium::parse("HugePages"), huge(None));
        assert_eq!(Medium::parse("HugePages-2Mi"), huge(Some(2 << 20)));
        assert_eq!(Medium::parse("HugePages-1Gi"), huge(Some(1 << 30)));
        for bad in [
            "memory",
            "Disk",
            "HugePages-",
            "HugePages-3Mi",
            "HugePages-2M",
            "HugePages-0",
            "HugePages--2Mi",
            "HugePages-1.5",
            "HugePages-99999999999Gi",
        ] {
            assert_eq!(Medium::parse(bad), Err(BadMedium(bad.to_owned())));
        }
    }
}
