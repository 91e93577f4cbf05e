/// Limits of one image: against archives that decompress to more than a disk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that the files of one layer use on disk. Holes use none.
    pub layer_bytes: u64,
    /// Bytes of one layer's archive, uncompressed, holes and all.
    pub stream_bytes: u64,
    /// How often larger a layer may be on disk than compressed, once it is past `ratio_from`.
    pub ratio: u64,
    /// Up to so many bytes on disk a ratio says nothing: small text compresses very well.
    pub ratio_from: u64,
    /// Entries of one layer.
    pub entries: u64,
    /// Layers of one image.
    pub layers: u64,
    /// The meaning of a leading `/` in an entry's name.
    pub absolute_names: AbsoluteNames,
}

/// How absolute names of entries are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbsoluteNames {
    /// Refused.
    Refused,
    /// Relative to the image's root, as some builders mean them.
    InImage,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            layer_bytes: 64 << 30,
            stream_bytes: 256 << 30,
            ratio: 200,
            ratio_from: 256 << 20,
            entries: 2_000_000,
            layers: 500,
            absolute_names: AbsoluteNames::Refused,
        }
    }
}
